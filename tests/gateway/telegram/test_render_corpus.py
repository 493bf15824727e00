"""The agent's markdown as it must look, where that corpus is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.telegram.render import render
from nightporter.testing import corpus, rendering

CASES = corpus.folder(Path(__file__).resolve().parents[3]) / "render" / "cases.jsonl"
AT_LEAST = 0.95


def test_the_cases_look_as_they_must(capsys: pytest.CaptureFixture[str]) -> None:
    if not CASES.exists():
        pytest.skip(f"no corpus at {CASES}; set NIGHTPORTER_CORPUS to its folder")
    cases = corpus.read_expectations(CASES)
    found = {
        case["id"]: rendering.differences(case, "telegram", [chunk.text for chunk in render(case["markdown"])])
        for case in cases
    }
    missed = {identifier: why for identifier, why in found.items() if why}
    strict = [case["id"] for case in cases if not case.get("lenient")]
    wrong = [identifier for identifier in strict if identifier in missed]
    with capsys.disabled():
        print(f"\ntelegram rendering: {1 - len(wrong) / len(strict):.1%} of {len(strict)}")
        print(*(f"  {identifier}: {'; '.join(why)}" for identifier, why in missed.items()), sep="\n")
    assert len(wrong) <= (1 - AT_LEAST) * len(strict)
