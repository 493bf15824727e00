"""What a sandbox plants where files of messages are put: never followed, never waited for, never written through."""

from __future__ import annotations

from pathlib import Path

import pytest
from blake3 import blake3

from agent.operator import Operator
from router.envelope import Attachment
from tests.turns.stage import Stage

SECRET = b"what the person sent"


async def place(stage: Stage, name: str = "report.txt") -> str:
    blob = blake3(SECRET).hexdigest()
    attachment = Attachment(name, "text/plain", len(SECRET), blob)
    message = await stage.hear("", attachments=[attachment], contents={blob: SECRET})
    await stage.serve(Operator())
    (reply,) = await stage.replies(message)
    return reply


@pytest.fixture
async def outside(stage: Stage, tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.mark.parametrize(
    "planted",
    [
        "ln -s {outside} inbox",
        "ln -s /home/porter inbox",
        "mkfifo inbox",
        "ln -s /dev/zero inbox",
        "touch inbox",
        "ln -s inbox inbox",
    ],
)
async def test_a_planted_inbox_is_left_alone_and_the_file_is_kept_beside_it(
    stage: Stage, outside: Path, planted: str
) -> None:
    await stage.hear(f"$ {planted.format(outside=outside)}")
    await stage.serve(Operator())
    reply = await place(stage)
    volume = stage.folder / "volumes" / str(stage.owner) / "live"
    assert "`/workspace/inbox-2/report.txt`" in reply
    assert (volume / "workspace" / "inbox-2" / "report.txt").read_bytes() == SECRET
    assert list(outside.iterdir()) == []
    assert not list(volume.glob("home/report.txt"))
    assert (volume / "workspace" / "inbox").is_symlink() or not (volume / "workspace" / "inbox").is_dir()


async def test_links_under_the_files_own_name_are_not_written_through(stage: Stage, outside: Path) -> None:
    (outside / "victim").write_bytes(b"untouched")
    await stage.hear(f"$ mkdir inbox; ln -s {outside}/victim inbox/report.txt; ln -s {outside}/new inbox/report-2.txt")
    await stage.serve(Operator())
    reply = await place(stage)
    assert "`/workspace/inbox/report-3.txt`" in reply
    assert (outside / "victim").read_bytes() == b"untouched"
    assert [path.name for path in outside.iterdir()] == ["victim"]


async def test_where_every_folder_is_planted_the_person_is_told(stage: Stage, outside: Path) -> None:
    await stage.hear(f"$ for n in '' -2 -3 -4 -5 -6 -7 -8 -9; do ln -s {outside} inbox$n; done")
    await stage.serve(Operator())
    reply = await place(stage)
    assert "`report.txt` did not come through" in reply
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("claimed", "kept"),
    [
        ("../../../etc/cron.d/x", "x"),
        ("..\\..\\x.txt", "x.txt"),
        ("/workspace/../x", "x"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("a\nb\x1b[31m.txt", "ab[31m.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("CON", "_CON"),
        ("..", "file-1"),
        ("", "file-1"),
        ("x" * 500 + ".txt", "x" * 146 + ".txt"),
        ("nul\0.txt", "nul\ufffd.txt"),
    ],
)
async def test_hostile_names_are_one_plain_entry_of_the_inbox(stage: Stage, claimed: str, kept: str) -> None:
    await place(stage, claimed)
    inbox = stage.folder / "volumes" / str(stage.owner) / "live" / "workspace" / "inbox"
    assert [path.name for path in inbox.iterdir()] == [kept]
