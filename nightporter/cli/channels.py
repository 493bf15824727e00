"""``channel parse`` and ``channel render``: one JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nightporter.cli import wiring


def parse(channel: str, files: Sequence[Path], bot: str) -> int:
    """How each delivery is read."""
    for described in wiring.parsed(channel, files, bot):
        _print(described)
    return 0


def render(channel: str, files: Sequence[Path]) -> int:
    """What markdown becomes on a channel; standard input when no file is named."""
    for markdown in [path.read_text("utf-8", "replace") for path in files] or [sys.stdin.read()]:
        _print(wiring.rendered(channel, markdown))
    return 0


def _print(found: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(found, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n")
