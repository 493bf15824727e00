"""Going back, by chat and by command line; export and import; what is kept of a shell, shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nightporter.testing import House

pytestmark = pytest.mark.slow


def test_files_go_back_by_chat_and_by_command_line(shared_house: House, tmp_path: Path) -> None:
    house = shared_house
    user = "traveller"
    house.say("$ echo one > file; export WHO=me", user=user)
    house.say("$ echo two > file", user=user)
    assert "1 file changed" in house.say("/undo", user=user)
    assert "one" in house.say("$ cat file", user=user)
    redone = house.run("workspace", "redo", f"local:{user}", "--json").stdout
    assert json.loads(redone)["status"] == "done"
    assert "two" in house.say("$ cat file", user=user)
    assert "+two" in house.say("/diff", user=user)
    archive = tmp_path / "files.tar.zst"
    assert house.run("workspace", "export", f"local:{user}", str(archive)).returncode == 0
    house.say("$ rm file; echo other > another", user=user)
    assert house.run("workspace", "import", f"local:{user}", str(archive)).returncode == 0
    assert "two" in house.say("$ cat file; ls another", user=user)
    assert house.run("workspace", "undo", f"local:{user}").returncode == 0
    assert "other" in house.say("$ cat another", user=user)
    assert "not kept: API_TOKEN" in house.say("$ export API_TOKEN=secret-thing", user=user)
    kept = json.loads(house.run("workspace", "state", f"local:{user}", "--json").stdout)
    assert kept["terminals"]["main"]["variables"]["WHO"]["value"] == "me"
    assert kept["terminals"]["main"]["not_kept"] == ["API_TOKEN"]
    shown = house.run("workspace", "state", f"local:{user}").stdout
    assert "secret-thing" not in shown
    assert "API_TOKEN" in shown
