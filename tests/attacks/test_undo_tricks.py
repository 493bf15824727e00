"""Tricks left in a workspace against going back: undo, redo and restore follow nothing, and touch only the volume."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.operator import Operator
from tests.sandboxes import skip_unless_it_works
from tests.turns.stage import Stage

TRICKS = r"""
ln -s /etc/passwd passwd; ln -s SECRET secret; ln -s .. up; ln -s loop loop; mkfifo fifo; ln file hard
printf '#!/bin/sh\n' > tool; chmod 6755 tool; truncate -s 1G sparse
mkdir -p $'odd\n\033[31m/-rf'; echo x > $'odd\n\033[31m/-rf/x'
mkdir closed; echo x > closed/x; chmod 0 closed; touch $'\xff'; mkdir dir; echo inside > dir/f
"""


@pytest.fixture
async def stage(tmp_path: Path, sqlite_url: str) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path, sqlite_url)
    async with stage.managing() as manager:
        await skip_unless_it_works(manager.backend)
        stage.manager = manager
        yield stage
    stage.database.close()


async def say(stage: Stage, text: str) -> str:
    message = await stage.hear(text)
    await stage.serve(Operator())
    return "\n".join(await stage.replies(message))


async def test_undo_and_redo_of_links_pipes_holes_and_privileges(stage: Stage, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host's own")
    await say(stage, "$ echo one > file")
    await say(stage, "$ " + TRICKS.replace("SECRET", str(secret)))
    assert "generation" in await say(stage, "/undo")
    assert "1\n" in await say(stage, "$ ls | wc -l")
    assert "generation" in await say(stage, "/redo")
    live = stage.folder / "volumes" / str(stage.owner) / "live" / "workspace"
    assert os.readlink(live / "secret") == str(secret)
    assert not (live / "fifo").exists(), "a pipe belongs to no generation"
    assert stat.S_IMODE((live / "tool").stat().st_mode) == 0o755, "no privilege comes back"
    assert (live / "sparse").stat().st_size == 1 << 30
    assert (live / "sparse").stat().st_blocks == 0
    assert (live / "hard").stat().st_ino != (live / "file").stat().st_ino, "a write to one is none to the other"
    assert secret.read_text() == "host's own"


async def test_restore_writes_through_no_link(stage: Stage, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    await say(stage, "$ mkdir dir; echo inside > dir/f; echo one > file")
    await say(stage, f"$ rm -r dir; ln -s {outside} dir; rm file; ln -s {outside}/file file")
    assert "no folder now" in await say(stage, "/restore dir/f@1")
    assert "is as it was" in await say(stage, "/restore file@1")
    assert list(outside.iterdir()) == []
    assert "one" in await say(stage, "$ cat file; test -L file || echo plain")
    for path in ("../../../../etc/passwd", "/etc/passwd", "~/../../x", "dir/../../x", "home/../x"):
        assert "is as it was" not in await say(stage, f"/restore {path}@1"), path


async def test_no_chat_command_takes_an_archive_in(stage: Stage) -> None:
    await say(stage, "$ echo mine > file")
    for words in (f"/import {'0' * 64}", "/import /etc/passwd", "!import x"):
        await say(stage, words)
    assert "mine" in await say(stage, "$ cat file")
    assert await stage.events("workspace.restored") == []
