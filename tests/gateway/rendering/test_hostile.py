"""Markdown as models write it badly and attackers write it well: nothing lost, nobody called, nothing broken."""

from __future__ import annotations

import re

import pytest

from gateway.rendering.layout import layout
from gateway.slack.render import render as slack
from gateway.telegram.render import render as telegram
from nightporter.testing.rendering import Markup, utf16

TOKENS = ("<!channel>", "<!here|here>", "<!everyone>", "<!subteam^S1>", "<!subteam^S1|@team>", "<@U123>", "<#C1|gen>")
PLACES = (
    "{}", "**{}**", "`{}`", "```\n{}\n```", "    {}", "> {}", "- {}\n  - {}", "[{}](https://e.com)", "[x]({})",
    "![{}](https://e.com/i.png)", "| {} |\n|---|\n| {} |", "# {}", "~~{}~~", "[^1]: {}", "- [ ] {}", "&lt;{}", "\\{}",
    "https://e.com/{}", "[x](https://e.com/{})", "<b>{}</b>", "[a][{}]\n\n[{}]: https://e.com",
)  # fmt: skip


def slack_text(markdown: str) -> str:
    return "\n".join(chunk.text for chunk in slack(markdown))


def telegram_text(markdown: str) -> str:
    return "\n".join(chunk.text for chunk in telegram(markdown))


@pytest.mark.parametrize("place", PLACES)
def test_no_token_calls_anybody_wherever_it_stands(place: str) -> None:
    for token in TOKENS:
        for chunk in slack(place.replace("{}", token)):
            links = re.findall(r"<([^>]*)>", chunk.text)
            assert all(re.match(r"(https?|mailto):", link) for link in links), (token, chunk.text)
            assert not re.search(r"<[!@#]", chunk.plain)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 40])
def test_long_quotes_lists_and_code_stay_whole_messages(size: int) -> None:
    """Not a message a character, as of a quote whose marks alone are over the limit."""
    for line in ("> quoted\n", "- item\n", "    code ```\n", "a\n", "> > deep\n"):
        markdown = line * (100 * size)
        for chunks in (slack(markdown), telegram(markdown)):
            assert len(chunks) <= 1 + len(markdown) * 3 // 3000
            words = line.split()[-1] if "`" not in line else "code"
            assert sum(chunk.text.count(words) for chunk in chunks) == 100 * size


def test_what_is_seen_as_one_character_is_not_cut() -> None:
    for whole in ("👨‍👩‍👧‍👦", "👍🏽", "🇳🇴", "é", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"):
        for shift in range(8):
            for chunk in telegram("x" * shift + whole * 3000):
                assert chunk.plain.strip("x").replace(whole, "") == ""


def test_a_table_with_links_keeps_them() -> None:
    table = "| n | u |\n|---|---|\n| x | [doc](https://e.com/a) |\n| **y** | `c` |"
    assert slack_text(table) == "• *n*: x; *u*: <https://e.com/a|doc>\n• *n*: *y*; *u*: `c`"
    assert '<a href="https://e.com/a">doc</a>' in telegram_text(table)


def test_footnotes_are_words_and_no_targets_of_links() -> None:
    assert slack_text("see[^1]\n\n[^1]: https://e.com/x 'T'") == "see[^1]\n\n[^1]: https://e.com/x 'T'"


@pytest.mark.parametrize("markdown", ["[](https://e.com)", "[ ](https://e.com)", "![](https://e.com)"])
def test_a_link_without_words_shows_its_address(markdown: str) -> None:
    assert slack_text(markdown) == "<https://e.com>"
    assert telegram_text(markdown) == '<a href="https://e.com">https://e.com</a>'


def test_words_on_a_fence_are_not_lost() -> None:
    assert "and what it means" in slack_text("``` this is what I ran and what it means\nls\n```")
    assert slack_text('```python title="x.py" {1,2}\nx\n```') == "```\nx\n```"
    assert "language-python" in telegram_text("```python title=1\nx\n```")


def test_a_numbered_task_keeps_its_number() -> None:
    assert slack_text("1. [x] one\n2. [ ] two") == "1. ☑ one\n2. ☐ two"


def test_control_characters_go_and_lines_stay() -> None:
    assert slack_text("a\x07b\x1b[31m\tc\r\nd") == "ab[31m\tc\nd"


@pytest.mark.parametrize("address", ["me@example.com", "a.b+c@mail.example.org"])
def test_mail_addresses_are_links_only_if_they_are_some(address: str) -> None:
    assert f"<mailto:{address}|{address}>" in slack_text(f"<{address}>")
    assert telegram_text(f"<{address}>") == address


def test_addresses_with_brackets_and_at_signs_stay_whole() -> None:
    found = slack_text("(see [a](https://e.com/x_(y)_z)) https://x.com/@user/1 <https://e.com/@here>")
    assert found == "(see <https://e.com/x_(y)_z|a>) https://x.com/@user/1 <https://e.com/@here>"


def test_every_message_is_within_the_limits_however_blocks_nest() -> None:
    block = (
        "> - **a** `b` [c](https://e.com)\n>   ```py\n>   x = '<&>'\n>   ```\n> 1. [ ] שלום 👨‍👩‍👧‍👦\n\n"
        "| a | b |\n|-|-|\n| `x` | y |\n\n"
    )
    for chunk in slack(block * 80):
        assert len(chunk.text) <= 3900
        assert chunk.text.count("```") % 2 == 0
    for chunk in telegram(block * 80):
        read = Markup(chunk.text)
        assert read.balanced
        assert utf16(read.text) <= 4096
        assert len(re.findall(r"<(?!/)(?!code class)", chunk.text)) <= 100


def test_spans_under_the_same_marks_are_one() -> None:
    (block,) = layout("a\nb\nc")
    assert len(block.spans) == 1
