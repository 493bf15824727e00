from __future__ import annotations

import subprocess
import sys

from nightporter.testing import House
from tests import warm


class WarmHouse(House):
    """A house whose ``up`` and commands come from the warm Python; else it is as its users run it."""

    def launch(self, *arguments: str, stderr: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "nightporter", *arguments]
        return warm.popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=stderr)
