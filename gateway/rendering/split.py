"""Long answers as several messages: cut between blocks, else at the end of a line, a sentence or a word.

It works on blocks before they become a platform's markup, but counts as the platform will: each piece is well-formed by
itself, and code that is cut is code again in the next piece, in its language.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from gateway.rendering.layout import Block, Span

_SENTENCE = re.compile(r"[.!?…][\"'”’)\]]*\s|[。！？]")
_JOINERS = frozenset({"\u200d", "\ufe0f", "\ufe0e"})


class Dialect(Protocol):
    """How a platform counts. ``limit``: of one message."""

    limit: int

    def width(self, character: str) -> int:
        """What one character of text counts."""
        ...

    def overhead(self, span: Span) -> int:
        """What the marks of a span count."""
        ...

    def frame(self, block: Block) -> int:
        """What the frame of a block counts, such as its fences."""
        ...


def split(blocks: Sequence[Block], dialect: Dialect) -> list[list[Block]]:
    """The blocks of each message."""
    waiting = deque(blocks)
    messages: list[list[Block]] = []
    current: list[Block] = []
    used = 0
    while waiting:
        block = waiting.popleft()
        size = length(block, dialect)
        gap = len(block.gap) if current else 0
        if used + gap + size <= dialect.limit:
            current.append(block)
            used += gap + size
            continue
        room = dialect.limit - used - gap
        if size > dialect.limit and (not current or room >= dialect.limit // 3):
            head, tail = cut(block, room, dialect)
            current.append(head)
            waiting.extendleft([tail] if tail.text else [])
        else:
            waiting.appendleft(block)
            if current[-1].heading and len(current) > 1:
                waiting.appendleft(current.pop())
        messages.append(current)
        current, used = [], 0
    return [*messages, current] if current else messages


def length(block: Block, dialect: Dialect) -> int:
    """What a block counts in a message; of one that is far too long, at least twice the limit."""
    size = dialect.frame(block)
    for span in block.spans:
        size += dialect.overhead(span) + sum(map(dialect.width, span.text[: 2 * dialect.limit]))
        if size > 2 * dialect.limit:
            break
    return size


def cut(block: Block, room: int, dialect: Dialect) -> tuple[Block, Block]:
    """A block in two, the first of which counts at most ``room``; at least one character goes into it."""
    most = max(1, _fitting(block, room - dialect.frame(block), dialect))
    text = block.text
    if block.kind == "code":
        at = text.rfind("\n", 0, most + 1)
        at = at if at > 0 else _whole(text, most)
        after = at + 1 if text[at : at + 1] == "\n" else at
    else:
        at = _sentence_end(text, most)
        after = at + len(text[at:]) - len(text[at:].lstrip())
        at = len(text[:at].rstrip()) or at
    head = replace(block, spans=_part(block.spans, 0, at))
    return head, replace(block, spans=_part(block.spans, after, len(text)), gap="\n\n")


def _fitting(block: Block, room: int, dialect: Dialect) -> int:
    """How many characters of a block count at most ``room``."""
    count = used = 0
    lines = dialect.width("\n") + (2 if block.kind == "quote" else 0)
    for span in block.spans:
        used += dialect.overhead(span)
        for character in span.text:
            used += lines if character == "\n" else dialect.width(character)
            if used > room:
                return count
            count += 1
    return count


def _sentence_end(text: str, most: int) -> int:
    """The best place to cut within the first ``most`` characters; never inside a word if it can be helped."""
    window = text[:most] + (" " if text[most : most + 1].isspace() else "")
    line = window.rfind("\n") + 1
    sentence = max((found.end() for found in _SENTENCE.finditer(window, max(0, most - 1000))), default=0)
    for place in (line, sentence):
        if place >= most // 2:
            return place
    blank = max(window.rfind(" "), window.rfind("\t")) + 1
    return max(line, sentence, blank) or _whole(text, most)


def _whole(text: str, at: int) -> int:
    """Not inside an emoji sequence or before a combining character."""
    place = at
    while at - place < 20 and place > 1:
        after, before = text[place : place + 1], text[place - 1]
        if after and (after in _JOINERS or before == "\u200d" or unicodedata.combining(after)):
            place -= 1
        else:
            return place
    return at


def _part(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """Characters ``start`` to ``end``, under their marks."""
    found, position = [], 0
    for span in spans:
        inside = span.text[max(0, start - position) : max(0, end - position)]
        if inside:
            found.append(replace(span, text=inside))
        position += len(span.text)
    return tuple(found)
