"""``channel parse`` and ``channel render``: one JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nightporter.cli import wiring


def parse_email(files: Sequence[Path], bot: str) -> int:
    """How each mail is read."""
    for described in wiring.parsed_mails(files, bot):
        _print(described)
    return 0


def render_email(files: Sequence[Path]) -> int:
    """What markdown becomes in a mail; standard input when no file is named."""
    for markdown in [path.read_text("utf-8", "replace") for path in files] or [sys.stdin.read()]:
        _print(wiring.rendered_mail(markdown))
    return 0


def _print(found: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(found, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n")
