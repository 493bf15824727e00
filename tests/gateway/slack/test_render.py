"""Mrkdwn: nothing the agent says calls people, no mark is left open, nothing is lost between messages."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.slack.render import MAX_CHARACTERS, render

PIECES = st.sampled_from(
    ["**", "*", "_", "~~", "`", "```\n", "\n", "\n\n", "- ", "1. ", "> ", "# ", "| a | b |\n|---|---|\n", "<!channel>",
     "<@U1>", "[x](https://e.com/a|b)", "&lt;", "\\", "word ", "名前", "🎉", "<", ">", "&", "    ", "![i](http://e.com)"]
)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(PIECES, max_size=60))
def test_only_links_of_ours_are_tokens(pieces: list[str]) -> None:
    for chunk in render("".join(pieces), limit=200):
        tokens = re.findall(r"<([^>]*)>", chunk.text)
        assert all(token.startswith(("http://", "https://", "mailto:")) for token in tokens)
        assert chunk.text.count("<") == len(tokens)
        assert "<" not in chunk.plain
        assert len(re.findall("```", chunk.text)) % 2 == 0
        assert len(chunk.text) <= 260


def test_marks_end_with_their_line() -> None:
    assert render("**one\ntwo**")[0].text == "*one*\n*two*"


def test_bold_in_a_link_and_around_it() -> None:
    assert render("**[a](https://e.com)**")[0].text == "*<https://e.com|a>*"
    assert render("[a **b**](https://e.com)")[0].text == "<https://e.com|a b>"


def test_code_is_closed_and_reopened_where_it_is_cut() -> None:
    chunks = render("```py\n" + "x = 1\n" * 2000 + "```")
    assert len(chunks) > 2
    assert all(chunk.text.startswith("```\n") and chunk.text.endswith("\n```") for chunk in chunks)
    assert sum(chunk.text.count("x = 1") for chunk in chunks) == 2000
    assert all(len(chunk.text) <= MAX_CHARACTERS for chunk in chunks)


def test_prose_is_cut_at_sentences() -> None:
    chunks = render("This is one sentence of many. " * 400)
    assert all(chunk.text.endswith("many.") for chunk in chunks)


def test_a_heading_stays_with_what_it_heads() -> None:
    chunks = render("word " * 700 + "\n\n# Next\n\n" + "text " * 600)
    assert chunks[1].text.startswith("*Next*")


def test_a_wide_table_is_a_line_a_row() -> None:
    cell = "long words " * 8
    out = render(f"| Name | Text |\n|---|---|\n| a | {cell} |\n| b | {cell} |")[0].text
    assert out.startswith("• *Name*: a; *Text*: long words")


@pytest.mark.parametrize(
    "hostile", ["[" * 20_000, "*a " * 50_000, "> " * 5_000, "`" * 50_001, "- " * 3_000, "x" * 600_000]
)
def test_hostile_markdown_is_quick(hostile: str) -> None:
    started = time.process_time()
    assert render(hostile)
    assert time.process_time() - started < 8
