"""The agent's markdown as Telegram's HTML. https://core.telegram.org/bots/api#html-style

``code`` and ``pre`` hold no other entity and no quote holds a quote; a message has at most 4,096 UTF-16 units and 100
entities, counted after the markup is read.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from gateway.rendering.chunks import Chunk, joined, plain
from gateway.rendering.layout import Block, Mark, Span, layout
from gateway.rendering.split import Kind, length, split
from gateway.telegram.entities import utf16_length

MAX_UTF16 = 4096
MAX_ENTITIES = 100
_TAGS = {"bold": "b", "italic": "i", "strike": "s", "code": "code", "link": "a"}


class Html:
    """Counts UTF-16 units of the text without its markup."""

    limit = MAX_UTF16

    def width(self, text: str, kind: Kind) -> int:
        return utf16_length(text)

    def overhead(self, span: Span) -> int:
        return 0

    def frame(self, kind: Kind) -> int:
        return 0


def render(markdown: str, limit: int = MAX_UTF16) -> list[Chunk]:
    """The messages of an answer; none where there is nothing to say."""
    return [Chunk(joined(blocks, map(_write, blocks)), plain(blocks)) for blocks in _messages(layout(markdown), limit)]


def plain_chunks(text: str, limit: int) -> list[Chunk]:
    """Plain words as messages of at most ``limit`` units."""
    dialect = Html()
    dialect.limit = limit
    messages = split([Block("text", (Span(text),))], dialect)
    return [Chunk(_escape(plain(blocks)), plain(blocks)) for blocks in messages]


def _messages(blocks: Sequence[Block], limit: int) -> Iterator[list[Block]]:
    """Within the limit of text and of entities: Telegram silently drops those that are too many."""
    dialect = Html()
    dialect.limit = limit
    for message in split(blocks, dialect):
        if limit > 200 and sum(map(_entities, message)) > MAX_ENTITIES:
            yield from _messages(message, min(limit, sum(length(block, dialect) for block in message)) // 2 + 1)
        else:
            yield message


def _entities(block: Block) -> int:
    """At most how many entities a block becomes."""
    return (block.kind != "text") + sum(len(span.marks) for span in block.spans)


def _write(block: Block) -> str:
    if block.kind == "code":
        code = _escape(block.text)
        if block.language:
            return f'<pre><code class="language-{html.escape(block.language)}">{code}</code></pre>'
        return f"<pre>{code}</pre>"
    text = _write_spans(block.spans)
    return f"<blockquote>{text}</blockquote>" if block.kind == "quote" else text


def _write_spans(spans: Sequence[Span]) -> str:
    out = ""
    opened: tuple[Mark, ...] = ()
    for span in spans:
        marks = _allowed(span.marks)
        keep = 0
        while keep < min(len(opened), len(marks)) and opened[keep] == marks[keep]:
            keep += 1
        out += _close(opened[keep:]) + "".join(map(_open, marks[keep:])) + _escape(span.text)
        opened = marks
    return out + _close(opened)


def _allowed(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """Code stands alone; a link of code is a link. Mail addresses are found by the platform itself."""
    linked = [mark for mark in marks if mark.kind == "link" and not mark.url.startswith("mailto:")]
    if any(mark.kind == "code" for mark in marks):
        return tuple(linked) or (Mark("code"),)
    return tuple(mark for mark in marks if mark.kind != "link" or mark in linked)


def _open(mark: Mark) -> str:
    return f'<a href="{html.escape(mark.url)}">' if mark.kind == "link" else f"<{_TAGS[mark.kind]}>"


def _close(marks: Sequence[Mark]) -> str:
    return "".join(f"</{_TAGS[mark.kind]}>" for mark in reversed(marks))


def _escape(text: str) -> str:
    return html.escape(text, quote=False)
