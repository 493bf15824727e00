"""What the guest is called in ``ps``: a nicety, without which a sandbox starts all the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_runner.guest import main


@pytest.mark.parametrize("refused", ["open", "pwrite"])
def test_a_kernel_that_lets_nobody_write_memory_is_no_fault(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    real = os.open

    def opened(path: str, flags: int) -> int:
        if refused == "open":
            raise PermissionError(13, "not here", path)
        return real(path, flags)

    def written(*_: object) -> int:
        raise OSError(22, "not here")

    before = Path("/proc/self/cmdline").read_bytes()
    monkeypatch.setattr(main.os, "open", opened)
    monkeypatch.setattr(main.os, "pwrite", written)
    main._show_title(b"another")
    assert Path("/proc/self/cmdline").read_bytes() == before
