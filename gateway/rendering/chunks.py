"""One message of an answer, in a platform's markup and as plain words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gateway.rendering.layout import Block


@dataclass(frozen=True)
class Chunk:
    """``plain``: the same content without markup, for when the platform refuses ``text``."""

    text: str
    plain: str


def joined(blocks: Sequence[Block], written: Iterable[str]) -> str:
    """Blocks as they were written, with their gaps between them."""
    out = ""
    for block, text in zip(blocks, written, strict=True):
        out += block.gap + text if out else text
    return out


def plain(blocks: Sequence[Block]) -> str:
    """The words of blocks, addresses of links in brackets."""
    return joined(blocks, map(_words, blocks))


def _words(block: Block) -> str:
    out = ""
    for position, span in enumerate(block.spans):
        out += span.text
        address = next((mark.url for mark in span.marks if mark.kind == "link"), "")
        following = block.spans[position + 1 : position + 2]
        goes_on = bool(following) and any(mark.url == address for mark in following[0].marks)
        if address and not goes_on and span.text not in {address, address.removeprefix("mailto:")}:
            out += f" ({address})"
    return out


LONG_CHARACTERS = 10_000
"""What takes longer to render than a loop that serves others should wait."""


async def rendered(render: Callable[[str], list[Chunk]], markdown: str) -> list[Chunk]:
    """The messages of an answer, without holding up the loop."""
    if len(markdown) < LONG_CHARACTERS:
        return render(markdown)
    return await asyncio.to_thread(render, markdown)
