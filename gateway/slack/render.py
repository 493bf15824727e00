"""The agent's markdown as Slack's mrkdwn. https://docs.slack.dev/messaging/formatting-message-text

Every ``&``, ``<`` and ``>`` of the text is escaped, also in code, so that nothing the agent says can be a token that
calls people (``<!channel>``, ``<@U1>``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.rendering.chunks import Chunk, joined, plain
from gateway.rendering.layout import Block, Mark, Span, layout
from gateway.rendering.split import Kind, split
from gateway.slack.tokens import escape

MAX_CHARACTERS = 3900
"""Slack cuts longer texts into messages of 4,000 characters without care for code blocks."""

_MARKERS = {"bold": "*", "italic": "_", "strike": "~"}
_GLUE = "\u200b"
"""Markers count only beside a boundary; this is one that nobody sees."""


class Mrkdwn:
    """Counts characters as they are sent."""

    limit = MAX_CHARACTERS

    def width(self, text: str, kind: Kind) -> int:
        size = len(text) + 4 * text.count("&") + 3 * (text.count("<") + text.count(">"))
        if kind == "quote":
            size += 2 * text.count("\n")
        return size + text.count("`") if kind == "code" else size

    def overhead(self, span: Span) -> int:
        return sum(len(escape(mark.url)) + 3 if mark.url else 4 for mark in span.marks)

    def frame(self, kind: Kind) -> int:
        return {"code": 8, "quote": 2, "text": 0}[kind]


def render(markdown: str, limit: int = MAX_CHARACTERS) -> list[Chunk]:
    """The messages of an answer; none where there is nothing to say."""
    dialect = Mrkdwn()
    dialect.limit = limit
    return [
        Chunk(joined(blocks, map(_write, blocks)), escape(plain(blocks))) for blocks in split(layout(markdown), dialect)
    ]


def _write(block: Block) -> str:
    if block.kind == "code":
        return f"```\n{_code_block(block.text)}\n```"
    lines = [_apart(_line(spans)) for spans in _lines(block.spans)]
    return "\n".join(f"> {line}".rstrip() if block.kind == "quote" else line for line in lines)


def _code_block(text: str) -> str:
    return escape(_apart(text))


def _apart(text: str) -> str:
    """Slack has no way to say three backticks without beginning or ending code: what nobody sees keeps them apart."""
    return re.sub("`(?=``)|(?<=`)`(?=`)", f"`{_GLUE}", text)


def _lines(spans: Sequence[Span]) -> list[list[Span]]:
    """Marks end with their line in Slack, and may hold no blank at their edges."""
    lines: list[list[Span]] = [[]]
    for span in spans:
        first, *others = span.text.split("\n") if not _link(span) else [span.text.replace("\n", " ")]
        lines[-1].append(Span(first, span.marks))
        lines += [[Span(text, span.marks)] for text in others]
    return [[span for span in _edges(line) if span.text] for line in lines]


def _edges(line: Sequence[Span]) -> list[Span]:
    found = list(line)
    if found and found[-1].marks:
        found[-1] = Span(found[-1].text.rstrip(), found[-1].marks)
    if found and found[0].marks:
        found[0] = Span(found[0].text.lstrip(), found[0].marks)
    return found


def _line(spans: Sequence[Span]) -> str:
    out, position = "", 0
    opened: list[Mark] = []
    while position < len(spans):
        end = _same_link(spans, position)
        text, marks = _piece(spans[position:end])
        styles = [mark for mark in marks if mark.kind in _MARKERS]
        keep = _common(opened, styles)
        out = _close(out, opened[keep:], text)
        for mark in styles[keep:]:
            out += (_GLUE if _joins(out[-1:]) else "") + _MARKERS[mark.kind]
        opened = styles
        out += text
        position = end
    return _close(out, opened, "")


def _piece(spans: Sequence[Span]) -> tuple[str, tuple[Mark, ...]]:
    """A span, or all spans of one link, as text and the marks around it."""
    link = _link(spans[0])
    if link:
        common = spans[0].marks[: min(_common(list(spans[0].marks), list(span.marks)) for span in spans)]
        return _write_link(link.url, "".join(span.text for span in spans)), common
    text = spans[0].text
    if any(mark.kind == "code" for mark in spans[0].marks):
        return f"`{escape(text.replace('`', 'ˋ'))}`", spans[0].marks
    return escape(text), spans[0].marks


def _write_link(url: str, label: str) -> str:
    address = escape(re.sub(r"[|<>\s]", lambda found: f"%{ord(found[0]):02X}", url))
    if label == url:
        return f"<{address}>"
    return f"<{address}|{escape(label.replace('|', '¦'))}>"


def _same_link(spans: Sequence[Span], start: int) -> int:
    link, end = _link(spans[start]), start + 1
    while link and end < len(spans) and _link(spans[end]) == link:
        end += 1
    return end


def _link(span: Span) -> Mark | None:
    return next((mark for mark in span.marks if mark.kind == "link"), None)


def _common(one: Sequence[Mark], other: Sequence[Mark]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _close(out: str, marks: Sequence[Mark], following: str) -> str:
    for mark in reversed(marks):
        out += _MARKERS[mark.kind]
    return out + (_GLUE if marks and _joins(following[:1]) else "")


def _joins(character: str) -> bool:
    return bool(character) and (character.isalnum() or (ord(character) > 127 and not character.isspace()))
