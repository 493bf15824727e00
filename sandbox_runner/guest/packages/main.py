"""What the programs of this folder are called by."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    home = os.environ.get("HOME") or "/home/porter"
    if arguments[:1] == ["apt"]:
        from . import apt

        return apt.main(arguments[1:], home)
    sys.stderr.write("usage: packages apt …\n")
    return 2
