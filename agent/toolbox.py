"""Which tools a turn has: the built-in ones, the operator's own, and those of sources that know whose turn it is.

Without sources it is the same mapping for every turn, at no cost. A source that cannot give its tools says why and
never keeps a turn from going on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.tool import Tool, ToolHost, Tools
from agent.tools import TOOLS


@dataclass(frozen=True)
class Offer:
    """What a source gives one turn; ``notes`` are for the briefing."""

    tools: Tools = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class ToolSource(Protocol):
    """Tools that depend on whose turn it is."""

    async def offer(self, host: ToolHost) -> Offer:
        """The tools for a turn of ``host.principal``; quick where nothing changed. Its own faults are notes."""
        ...


@dataclass(frozen=True)
class Toolbox:
    """``standing``: what every turn has. A source's tool never replaces one that is there already."""

    standing: Tools = field(default_factory=lambda: TOOLS)
    sources: Sequence[ToolSource] = ()
    guard: Callable[[Tool], Tool] = lambda tool: tool
    """Puts what stands before every tool before a source's; ``standing`` has it already."""

    async def offer(self, host: ToolHost) -> Offer:
        """The tools of one turn."""
        if not self.sources:
            return Offer(self.standing)
        tools, notes = dict(self.standing), list[str]()
        for source in self.sources:
            found = await source.offer(host)
            tools |= {name: self.guard(tool) for name, tool in found.tools.items() if name not in tools}
            notes += found.notes
        return Offer(tools, tuple(notes))
