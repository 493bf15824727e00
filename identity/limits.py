"""Rate limits of what people send: a bucket of tokens for each sender and for each channel, in this process.

A bucket holds a minute's worth and is refilled all the time. Whoever empties theirs gets one clear answer, then silence
until a token is there again. Nothing is lost by it that was accepted: what is over the limit is not accepted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["take", "answer", "drop"]
MAX_SENDERS = 50_000


@dataclass
class _Bucket:
    tokens: float
    at: float
    answered: bool = False


@dataclass
class Limits:
    """``sender`` and ``channel``: messages a minute; 0: any number."""

    sender: int = 0
    channel: int = 0
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[tuple[str, ...], _Bucket] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def judge(self, channel: str, account: str, sender: str) -> Verdict:
        """Take a token for a message of a sender; ``answer`` the first time there is none."""
        with self._lock:
            own = self._refilled((channel, account, sender), self.sender)
            whole = self._refilled((channel, account), self.channel)
            if own.tokens >= 1 and whole.tokens >= 1:
                own.tokens -= 1
                whole.tokens -= 1
                own.answered = False
                return "take"
            first, own.answered = not own.answered, True
            return "answer" if first else "drop"

    def _refilled(self, key: tuple[str, ...], most: int) -> _Bucket:
        now = self.clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MAX_SENDERS:
                self._forget_the_quiet(now)
            bucket = self._buckets[key] = _Bucket(float(most), now)
        if most == 0:
            bucket.tokens = 1.0
        else:
            bucket.tokens = min(float(most), bucket.tokens + (now - bucket.at) * most / 60)
        bucket.at = now
        return bucket

    def _forget_the_quiet(self, now: float) -> None:
        """After a minute of silence a bucket is full again: the same as none."""
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if now - bucket.at < 60}
