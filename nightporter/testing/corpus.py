"""Compare how a channel reads deliveries with a corpus of expected readings.

A corpus is a folder with ``expected.jsonl``: one object a line with ``file`` and the fields of ``channel parse``;
``…_also_ok`` lists other accepted values. Texts are compared after white space is made one blank.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_COMMENTS = frozenset(
    {
        "file", "why", "lenient", "compare", "must_contain", "must_not_contain", "context_must_contain", "text_also_ok",
        "user_also_ok", "attachments_optional", "pair", "needs", "headers_file", "must_check", "reply_to", "may_join",
        "reply_context", "text_chars",
    }
)  # fmt: skip
"""Fields that say how to compare, or speak to the reader."""


def folder(root: Path) -> Path:
    """Where the corpus is: ``NIGHTPORTER_CORPUS``, else ``../shared/corpus`` next to the repository."""
    return Path(os.environ.get("NIGHTPORTER_CORPUS") or root.parent / "shared" / "corpus")


def read_expectations(path: Path) -> list[dict[str, Any]]:
    """One object a line. Raises OSError."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def normal(text: str) -> str:
    """Runs of white space as one blank, ends trimmed, U+200B and U+FEFF dropped."""
    return re.sub(r"\s+", " ", text.replace("\u200b", "").replace("\ufeff", "")).strip()


def misses(wanted: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """File → what differs, for files that were misread. Of several with one key, exactly one may act."""
    keys = Counter(str(item["dedupe_key"]) for item in wanted if item["action"] in {"message", "duplicate"})
    acted = Counter(str(item["dedupe_key"]) for item in got if item["action"] == "message")
    found: dict[str, list[str]] = {}
    for want, have in zip(wanted, got, strict=True):
        differs = differences(want, have, shared=keys[str(want["dedupe_key"])] > 1)
        if have["action"] == "duplicate" and acted[str(have["dedupe_key"])] != 1:
            differs.append(f"{acted[str(have['dedupe_key'])]} deliveries of this key act")
        if differs:
            found[str(want["file"])] = differs
    return found


def differences(want: Mapping[str, Any], have: Mapping[str, Any], *, shared: bool = False) -> list[str]:
    """What differs from the expected reading. ``shared``: another delivery of the same key may be the one that acts."""
    found = []
    if have["action"] != want["action"] and not (shared and have["action"] == "duplicate"):
        found.append(f"action {have['action']!r} instead of {want['action']!r}")
    found += _text(want, have)
    found += _attachments(want, have)
    context = str(have.get("context", "")) + str(have.get("text") or "")
    found += [f"context lacks {words!r}" for words in want.get("context_must_contain", []) if words not in context]
    for field in want.keys() - _COMMENTS - {"action", "text", "attachments", "thread"}:
        accepted = [want[field], *want.get(f"{field}_also_ok", [])]
        if have.get(field) not in accepted:
            found.append(f"{field} {have.get(field)!r} instead of {want[field]!r}")
    own = str(want["dedupe_key"]).rpartition(":")[2]
    if have["thread"] != want["thread"] and not (want["thread"] is None and have["thread"] == own):
        found.append(f"thread {have['thread']!r} instead of {want['thread']!r}")
    return found


def _text(want: Mapping[str, Any], have: Mapping[str, Any]) -> list[str]:
    text = have["text"]
    if want.get("compare") == "contains":
        lacks = [f"text lacks {words!r}" for words in want.get("must_contain", []) if words not in (text or "")]
        return lacks + [f"text has {words!r}" for words in want.get("must_not_contain", []) if words in (text or "")]
    accepted = [want["text"], *want.get("text_also_ok", [])]
    if text in accepted or (
        text is not None and normal(text) in [normal(item) for item in accepted if item is not None]
    ):
        return []
    return [f"text {text!r} instead of {want['text']!r}"]


def _attachments(want: Mapping[str, Any], have: Mapping[str, Any]) -> list[str]:
    optional = set(want.get("attachments_optional", []))
    wanted = [name for name in want["attachments"] if name not in optional]
    got = [name for name in have["attachments"] if name not in optional]
    return [] if wanted == got else [f"attachments {got} instead of {wanted}"]
