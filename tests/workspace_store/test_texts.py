"""Questions as a person reads them."""

from __future__ import annotations

import pytest

from workspace_store import texts


@pytest.mark.parametrize(
    ("about", "asked"),
    [
        ("reach `a.example`", "**May I reach `a.example`?**"),
        ("forget for good\n\n- a note\n- a turn\n\n", "**May I forget for good?**\n\n- a note\n- a turn"),
        ("send this to `ann`\n> one\n> two\n", "**May I send this to `ann`?**\n\n> one\n> two"),
        ("run `a\nb`", "**May I run `a\nb`?**"),
    ],
)
def test_a_question_ends_before_what_it_is_about_is_listed(about: str, asked: str) -> None:
    assert texts.question(about, [], "CODE") == f"{asked}\n\n"
    assert texts.replaced(about).startswith(asked.replace("*", ""))
