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
from typing import Literal, Protocol

from gateway.rendering.layout import Block, Span

_SENTENCE = re.compile(r"[.!?…][\"'”’)\]]*\s|[。！？]")
_ZWJ = "\u200d"
_JOINERS = frozenset({_ZWJ, "\ufe0f", "\ufe0e"})
MOST_JOINED = 40

Kind = Literal["text", "quote", "code"]


class Dialect(Protocol):
    """How a platform counts. ``limit``: of one message."""

    limit: int

    def width(self, text: str, kind: Kind) -> int:
        """What text counts in a block of a kind, with what its lines and characters need there."""
        ...

    def overhead(self, span: Span) -> int:
        """What the marks of a span count."""
        ...

    def frame(self, kind: Kind) -> int:
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
    size = dialect.frame(block.kind)
    for span in block.spans:
        size += dialect.overhead(span) + dialect.width(span.text[: 2 * dialect.limit], block.kind)
        if size > 2 * dialect.limit:
            break
    return size


def cut(block: Block, room: int, dialect: Dialect) -> tuple[Block, Block]:
    """A block in two, the first of which counts at most ``room``; at least one character goes into it."""
    most = max(1, _fitting(block, room - dialect.frame(block.kind), dialect))
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
    for span in block.spans:
        used += dialect.overhead(span)
        for character in span.text:
            used += dialect.width(character, block.kind)
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
    """Not inside what is seen as one character: an emoji sequence, a flag, a letter with its accents."""
    for place in range(at, max(1, at - MOST_JOINED), -1):
        if not _joined(text, place):
            return place
    return at


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and after a place belong together. https://unicode.org/reports/tr29/"""
    before, after = text[at - 1 : at], text[at : at + 1]
    if not before or not after:
        return False
    if before == _ZWJ or after in _JOINERS or unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    if _is_flag(before) and _is_flag(after):
        run = at
        while run > 0 and _is_flag(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 1
    return "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f"


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _part(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """Characters ``start`` to ``end``, under their marks."""
    found, position = [], 0
    for span in spans:
        after = position + len(span.text)
        if start <= position and after <= end:
            if span.text:
                found.append(span)
        elif position < end and after > start:
            found.append(replace(span, text=span.text[max(0, start - position) : end - position]))
        position = after
    return tuple(found)
