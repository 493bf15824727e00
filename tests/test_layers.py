"""Each room imports only those below it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_each_room_imports_only_those_below() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()"]
    done = subprocess.run(
        [*command, "--no-cache"], cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
    assert "1 kept, 0 broken" in done.stdout
