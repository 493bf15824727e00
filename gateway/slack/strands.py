"""What a sequence of deliveries remembers: threads in which the agent takes part, and keys that were seen."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gateway.slack.parse import decide
from gateway.slack.parsed import ACTS, Parsed

MOST = 50_000
V = TypeVar("V")


@dataclass
class Strands:
    """Bounded memory; the oldest is forgotten first. The inbox is what dedupes for good."""

    _threads: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _keys: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _gestures: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def follow(self, parsed: Parsed) -> Parsed:
        """The delivery as it counts after all before it."""
        parsed = decide(parsed, self.takes_part(parsed))
        if parsed.joins_thread:
            self.join(parsed)
        if parsed.action not in ACTS or not parsed.dedupe_key:
            return parsed
        key = self.first_key(parsed)
        if key in self._keys:
            return replace(parsed, action="duplicate", dedupe_key=key)
        _remember(self._keys, key, key)
        return parsed

    def takes_part(self, parsed: Parsed) -> bool:
        return _thread(parsed) in self._threads

    def join(self, parsed: Parsed) -> None:
        _remember(self._threads, _thread(replace(parsed, thread=parsed.joins_thread or parsed.thread)), None)

    def first_key(self, parsed: Parsed) -> str:
        """The key of the first delivery of one gesture: Slack has delivered a message twice, under two ``ts``."""
        own = parsed.dedupe_key or ""
        if not parsed.client_msg_id:
            return own
        gesture = f"{parsed.team}:{parsed.channel}:{parsed.user}:{parsed.client_msg_id}"
        if gesture not in self._gestures:
            _remember(self._gestures, gesture, own)
        return self._gestures[gesture]


def _thread(parsed: Parsed) -> str:
    return f"{parsed.team}:{parsed.channel}:{parsed.thread}"


def _remember(memory: OrderedDict[str, V], key: str, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > MOST:
        memory.popitem(last=False)
