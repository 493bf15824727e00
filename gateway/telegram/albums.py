"""Albums in groups: only one item holds the words, and with them the mention; the others count because it does.

What came before that item is kept for a moment, and only in memory: until it comes, nobody has spoken to the agent.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from gateway.telegram.messages import decide
from gateway.telegram.parsed import Parsed

KEPT = 200
"""Albums remembered; each has at most ten items."""


@dataclass
class Albums:
    """By chat and album: its items that wait for one that is addressed; None: that one has come."""

    _seen: OrderedDict[tuple[int | None, str], list[Parsed] | None] = field(default_factory=OrderedDict)

    def judge(self, parsed: Parsed) -> list[Parsed]:
        """What counts now that this was read, in order."""
        if not parsed.group:
            return [parsed]
        key = (parsed.channel, parsed.group)
        waiting = self._seen.pop(key, [])
        self._seen[key] = waiting if parsed.needs_group else None
        if len(self._seen) > KEPT:
            self._seen.popitem(last=False)
        if not parsed.needs_group:
            return [*(decide(item, album_addressed=True) for item in waiting or []), parsed]
        if waiting is None:
            return [decide(parsed, album_addressed=True)]
        waiting.append(parsed)
        return []
