"""Updates with the reading a careful person would give, where that corpus is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.telegram.describe import describe
from nightporter.testing import corpus

CORPUS = corpus.folder(Path(__file__).resolve().parents[3]) / "telegram"
AT_LEAST = 0.97
BOT = "helper_agent_bot:7012345678"


def test_the_corpus_is_read_as_a_careful_person_would_read_it(capsys: pytest.CaptureFixture[str]) -> None:
    if not (CORPUS / "expected.jsonl").exists():
        pytest.skip(f"no corpus at {CORPUS}; set NIGHTPORTER_CORPUS to its folder")
    expected = corpus.read_expectations(CORPUS / "expected.jsonl")
    missed = corpus.misses(expected, list(describe([CORPUS / item["file"] for item in expected], BOT)))
    strict = [item["file"] for item in expected if not item.get("lenient")]
    wrong = [file for file in strict if file in missed]
    with capsys.disabled():
        print(f"\ntelegram: {1 - len(wrong) / len(strict):.1%} of {len(strict)}")
        print(*(f"  {file}: {'; '.join(why)}" for file, why in missed.items()), sep="\n")
    assert len(wrong) <= (1 - AT_LEAST) * len(strict)
