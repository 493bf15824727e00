"""A process state that the sandbox wrote itself: read as data, checked, and never run by anybody."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox_runner.bubblewrap import BubblewrapBackend
from tests.sandbox_runner.egress.inside import Inside, inside
from tests.sandbox_runner.egress.yard import yard

TOUCH = "touch /workspace/pwned"


def state_file(its: Inside) -> Path:
    return its.workspace.parent / "home/.nightporter/session_state.json"


@pytest.mark.parametrize(
    "changes",
    [
        {"cwd": f"/tmp$({TOUCH})"},
        {"cwd": "../../../../etc"},
        {"umask": f"022; {TOUCH}"},
        {"umask": [TOUCH]},
        {"variables": {f"X; {TOUCH}; Y": {"value": "1", "flags": "x"}}},
        {"variables": {"X": {"value": f"$({TOUCH})", "flags": f"x; {TOUCH}"}}},
        {"variables": {"X[$(touch /workspace/pwned)]": {"value": "1", "flags": "x"}}},
        {"aliases": {f"ll; {TOUCH}": "ls"}},
        {"options": [f"errexit; {TOUCH}"], "shopt": [f"globstar; {TOUCH}"]},
        {"options": f"-x; {TOUCH}"},
        {"limits": {"nofile": f"1; {TOUCH}"}},
        {"history": [f"\n{TOUCH}\n"]},
    ],
)
async def test_a_record_that_is_a_program(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend, changes: dict[str, Any]
) -> None:
    """Only what a person could have typed comes back; nothing of it runs by being read."""
    folder = tmp_path / "volume"
    async with yard(tmp_path, sqlite_url) as made:
        async with inside(made, backend, folder) as its:
            await its.run("X=1; export X; cd /tmp")
            state = json.loads(state_file(its).read_text())
            state["terminals"]["main"].update(changes)
        (folder / "home/.nightporter/session_state.json").write_text(json.dumps(state))
        async with inside(made, backend, folder) as its:
            assert await its.output("echo alive") == "alive"
            assert not (its.workspace / "pwned").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"terminals": ' + b"[" * 20000, b'{"version": 99}', b"{}" * 400_000],
)
async def test_a_file_that_is_none(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend, content: bytes) -> None:
    folder = tmp_path / "volume"
    async with yard(tmp_path, sqlite_url) as made:
        async with inside(made, backend, folder) as its:
            await its.run("true")
        (folder / "home/.nightporter/session_state.json").write_bytes(content)
        async with inside(made, backend, folder) as its:
            assert await its.output("echo alive") == "alive"


async def test_a_link_or_a_pipe_in_its_place(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    folder = tmp_path / "volume"
    async with yard(tmp_path, sqlite_url) as made:
        for place in (Path("/etc/shadow"), Path("/dev/zero"), os.mkfifo, os.mkdir):
            async with inside(made, backend, folder) as its:
                await its.run("true")
            state = folder / "home/.nightporter/session_state.json"
            state.rmdir() if state.is_dir() else state.unlink(missing_ok=True)
            if isinstance(place, Path):
                state.symlink_to(place)
            else:
                place(state)
            async with inside(made, backend, folder) as its:
                assert await its.output("echo alive") == "alive"
