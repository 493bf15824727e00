"""``actions``: what waits for an approval, and answering it as the one who runs this machine."""

from __future__ import annotations

import json
import sys
from datetime import datetime

from nightporter.cli import texts, wiring
from nightporter.errors import FAILED
from nightporter.settings import load


def waiting(principal: str, *, as_json: bool) -> int:
    """Print what waits, oldest first; with ``--json`` an object a line."""
    for row in wiring.waiting_approvals(load(), principal):
        until = datetime.fromtimestamp(row["expires_at"]).astimezone()
        line = texts.waiting_approval(row["code"], row["kind"], row["text"], f"{until:%Y-%m-%d %H:%M}")
        _print(json.dumps(row, ensure_ascii=False, default=str) if as_json else texts.plain(line))
    return 0


def answer(code: str, verdict: str, choice: str, instead: str, *, as_json: bool) -> int:
    """Answer one; 1 where it decides nothing, with the reason."""
    found = wiring.answer_approval(load(), code, verdict, choice, instead)
    _print(json.dumps(found, ensure_ascii=False, default=str) if as_json else texts.plain(found["said"]))
    return 0 if found["outcome"] == "decided" else FAILED


def _print(line: str) -> None:
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")
