"""Real-shaped mails with the reading a careful person would give, where that corpus is at hand."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.email.describe import describe

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("NIGHTPORTER_CORPUS") or ROOT.parent / "shared" / "corpus") / "email"

KINDS_AT_LEAST = 0.95
TEXTS_AT_LEAST = 0.93


def normal(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\u200b", "").replace("\ufeff", "")).strip()


def expectations() -> list[dict[str, Any]]:
    if not (CORPUS / "expected.jsonl").exists():
        pytest.skip(f"no corpus at {CORPUS}; set NIGHTPORTER_CORPUS to its folder")
    lines = (CORPUS / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    return [item for item in map(json.loads, lines) if not item.get("lenient")]


def test_the_corpus_is_read_as_a_careful_person_would_read_it(capsys: pytest.CaptureFixture[str]) -> None:
    expected = expectations()
    found = list(describe([CORPUS / item["file"] for item in expected]))
    kinds, texts, others = [], [], []
    measured = 0
    for want, got in zip(expected, found, strict=True):
        if want["kind"] != got["kind"]:
            kinds.append(f"{want['file']}: {got['kind']} instead of {want['kind']}")
        if want["reply_text"] is not None:
            measured += 1
            accepted = [normal(text) for text in [want["reply_text"], *want.get("also_ok", [])]]
            if normal(got["reply_text"]) not in accepted:
                texts.append(f"{want['file']}: {got['reply_text']!r} instead of {want['reply_text']!r}")
        others += [f"{want['file']}: {miss}" for miss in other_misses(want, got)]
    with capsys.disabled():
        print(f"\nkinds {1 - len(kinds) / len(expected):.1%}, reply texts {1 - len(texts) / measured:.1%}")
        print(*kinds, *texts, *others, sep="\n")
    assert len(kinds) <= (1 - KINDS_AT_LEAST) * len(expected)
    assert len(texts) <= (1 - TEXTS_AT_LEAST) * measured
    assert len(others) <= 0.02 * len(expected)


def other_misses(want: dict[str, Any], got: dict[str, Any]) -> list[str]:
    misses = [
        f"{field} {got[field]!r} instead of {want[field]!r}"
        for field in ("from", "subject", "in_reply_to")
        if normal(got[field] or "") != normal(want[field] or "")
    ]
    listed = sorted(got["attachments"])
    optional = set(want.get("attachments_optional", []))
    if sorted(name for name in listed if name not in optional) != sorted(want["attachments"]):
        misses.append(f"attachments {listed} instead of {want['attachments']}")
    seen = normal(got["reply_text"] + " " + got["context"])
    misses += [
        f"{text!r} is not in the context" for text in want.get("context_must_contain", []) if normal(text) not in seen
    ]
    return misses
