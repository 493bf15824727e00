"""HTML that Telegram accepts: well-formed in every message, within its limits, with nothing lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.telegram.render import render
from nightporter.testing.rendering import Markup, utf16

PIECES = st.sampled_from(
    ["**", "*", "_", "~~", "`", "```py\n", "\n", "\n\n", "- ", "1. ", "> ", "# ", "| a | b |\n|---|---|\n", "</b>",
     "<i>", "[x](https://e.com/?a=\"b)", "&lt;", "\\", "word ", "名前", "🎉", "👩‍👩‍👧", "<", ">", "&", "    ", "[`c`](http://e.com)"]
)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(PIECES, max_size=60))
def test_every_message_is_well_formed_and_short_enough(pieces: list[str]) -> None:
    for chunk in render("".join(pieces), limit=100):
        markup = Markup(chunk.text)
        assert markup.balanced
        assert markup.deepest <= 1
        assert 0 < utf16(markup.text) <= 100
        assert markup.text.strip()


@settings(max_examples=50)
@given(st.lists(st.text("abc😀é \n.", min_size=1, max_size=300), max_size=5))
def test_no_letter_is_lost(paragraphs: list[str]) -> None:
    said = "\n\n".join(paragraphs)
    shown = "".join(Markup(chunk.text).text for chunk in render(said, limit=120))
    assert "".join(shown.split()) == "".join(said.split())


def test_the_language_is_named_again_where_code_is_cut() -> None:
    chunks = render("```python\n" + "x = 1\n" * 2000 + "```")
    assert len(chunks) > 2
    assert all(chunk.text.startswith('<pre><code class="language-python">') for chunk in chunks)


def test_no_message_has_more_entities_than_telegram_keeps() -> None:
    chunks = render("".join(f"- **{number}** x\n" for number in range(250)))
    assert all(chunk.text.count("<b>") <= 100 for chunk in chunks)
    assert sum(chunk.text.count("<b>") for chunk in chunks) == 250


def test_an_emoji_family_is_not_torn_apart() -> None:
    assert all("👧" not in chunk.text[:2] for chunk in render("👩‍👩‍👧" * 40, limit=101))


def test_the_plain_form_keeps_addresses() -> None:
    assert render("see [the docs](https://e.com) `x`")[0].plain == "see the docs (https://e.com) x"
