"""The guest as one file: the same guest, without a word of the host, made once and again when it changes."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from sandbox_runner import guest_image
from sandbox_runner.guest_connection import GUEST_FOLDER, GuestConnection
from sandbox_runner.host_python import HostPython

PYTHON = HostPython.running().executable


async def test_the_image_is_a_guest_and_nothing_is_compiled_or_found_elsewhere(tmp_path: Path) -> None:
    image = guest_image.build(GUEST_FOLDER, tmp_path / "image", PYTHON)
    assert guest_image.program(image) == guest_image.PROGRAM
    ours, theirs = socket.socketpair()
    home = tmp_path / "home"
    home.mkdir()
    imported = tmp_path / "imported"
    with theirs, imported.open("wb") as errors:
        process = subprocess.Popen(
            [PYTHON, "-I", "-S", "-B", "-v", image / guest_image.PROGRAM, "--fd", str(theirs.fileno())],
            pass_fds=[theirs.fileno()], env={"HOME": str(home), "TMPDIR": str(tmp_path)}, stderr=errors,
        )  # fmt: skip
    guest = await GuestConnection.over(ours)
    await guest.hello()
    await guest.restore()
    result = await guest.run("call", "echo $((6 * 7))", terminal="main", timeout=10, background=False)
    assert result.output.strip() == "42"
    await guest.shutdown()
    await guest.close()
    assert process.wait(10) == 0
    files = [line for line in imported.read_text().splitlines() if "code object from" in line or "matches /" in line]
    assert [line for line in files if "encodings" not in line and "__main__" not in line] == []


def test_no_path_of_the_host_is_in_it(tmp_path: Path) -> None:
    image = guest_image.build(GUEST_FOLDER, tmp_path / "image", PYTHON)
    data = (image / guest_image.PROGRAM).read_bytes()
    for path in (GUEST_FOLDER, PYTHON.parent.parent, tmp_path):
        assert str(path).encode() not in data
    assert (image / "node_proxy.cjs").exists()


def test_made_once_and_again_when_the_guest_changes(tmp_path: Path) -> None:
    guest = tmp_path / "guest"
    shutil.copytree(GUEST_FOLDER, guest, ignore=shutil.ignore_patterns("__pycache__"))
    first = guest_image.build(guest, tmp_path / "image", PYTHON)
    made = (first / guest_image.PROGRAM).stat().st_ino
    assert guest_image.build(guest, tmp_path / "image", PYTHON) == first
    assert (first / guest_image.PROGRAM).stat().st_ino == made
    (guest / "texts.py").write_text("WORD = 'new'\n")
    second = guest_image.build(guest, tmp_path / "image", PYTHON)
    assert second != first
    assert not first.exists()


def test_a_guest_that_does_not_compile_is_an_error_with_its_reason(tmp_path: Path) -> None:
    guest = tmp_path / "guest"
    shutil.copytree(GUEST_FOLDER, guest)
    (guest / "main.py").write_text("def broken(:\n")
    with pytest.raises(OSError, match="SyntaxError"):
        guest_image.build(guest, tmp_path / "image", PYTHON)
