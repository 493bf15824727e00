"""What the programs of this folder are called by."""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    home = os.environ.get("HOME") or "/home/porter"
    if arguments[:1] == ["apt"]:
        from . import apt

        return apt.main(arguments[1:], home)
    if arguments[:1] == ["survey"] and len(arguments) == 2:
        import json

        from .survey import survey

        sys.stdout.write(json.dumps(survey(home, arguments[1])))
        return 0
    if arguments[:1] == ["environment"]:
        from . import rebuild

        return rebuild.main(arguments[1:], home)
    sys.stderr.write("usage: packages apt|survey|environment …\n")
    return 2
