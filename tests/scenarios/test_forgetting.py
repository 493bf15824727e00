"""A person is exported whole, and forgotten everywhere: no byte of theirs is left, and the chain still verifies."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from nightporter import signing
from nightporter.testing import House

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
SECRET = "xyzzyheron"


def found_in(folder: Path) -> list[Path]:
    """Files that hold the secret, in the clear."""
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_export_holds_everything_and_nothing_of_others(make_house: MakeHouse, tmp_path: Path) -> None:
    house = make_house()
    house.say(f"remember the codeword is {SECRET}", user="bob")
    house.say(f"$ echo {SECRET} > treasure.txt; ln -s /etc/passwd link", user="bob")
    house.say("remember the owner's codeword is otherword")
    archive = tmp_path / "bob.tar"
    done = house.run("users", "export", "local:bob", str(archive), "--json")
    assert done.returncode == 0, done.stderr
    assert archive.stat().st_mode & 0o077 == 0
    with tarfile.open(archive) as opened:
        contents = {name: opened.extractfile(name).read() for name in opened.getnames()}  # type: ignore[union-attr]
    assert SECRET.encode() in contents["rows/note.jsonl"]
    plain = zstandard.ZstdDecompressor().stream_reader(contents["volumes/0.tar.zst"]).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as files:
        treasure = files.extractfile("workspace/treasure.txt")
        assert treasure is not None
        assert treasure.read().decode().strip() == SECRET
    contents["volumes/0.tar"] = plain
    assert b"otherword" not in b"".join(contents.values())
    assert not any(b"root:" in data for data in contents.values())
    assert house.run("users", "export", "local:bob", str(archive)).returncode == 1, "never over another file"


def test_forgetting_leaves_no_byte_behind_and_a_chain_that_verifies(make_house: MakeHouse) -> None:
    house = make_house()
    house.say("remember the owner stays")
    for _ in range(3):
        house.say(f"remember the codeword is {SECRET}", user="bob")
    house.say(f"$ echo {SECRET} | tee treasure.txt; sleep 1000 & cd /tmp", user="bob")
    house.say(f"$& while true; do echo {SECRET} >> log.txt; sleep 0.1; done", user="bob")
    assert found_in(house.home)
    done = house.run("users", "forget", "local:bob", "--yes", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    receipt = json.loads(done.stdout)
    assert signing.verifies(receipt["body"], receipt["signature"], receipt["public_key"])
    assert not signing.verifies(receipt["body"] + " ", receipt["signature"], receipt["public_key"])
    assert found_in(house.home) == []
    assert house.run("journal", "verify").returncode == 0
    assert house.run("users", "show", "local:bob").returncode == 1
    assert "the owner stays" in house.say("recall owner")
    assert SECRET not in house.say("recall codeword", user="bob"), "whoever comes by that name is new"
