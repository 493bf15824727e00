"""Who asks: known by the socket that a connection came through."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from workspace_store.tenancy import Tenancy

SAME_SECONDS = 1.0
HOUR_SECONDS = 3600.0
MOST_AN_HOUR = 200


@dataclass
class Client:
    """A sandbox as the proxy knows it: by the socket that the connection came through, never by what it says."""

    sandbox_id: str
    tenancy: Tenancy
    connections: int = 0
    _told: dict[tuple[str, int, str], float] = field(default_factory=dict)
    _times: deque[float] = field(default_factory=deque)

    def is_worth_telling(self, refusal: tuple[str, int, str]) -> bool:
        """Whether a refusal (host, port, kind) is written down: the same one once a second, and so many an hour."""
        now = time.monotonic()
        while self._times and now - self._times[0] > HOUR_SECONDS:
            self._times.popleft()
        if now - self._told.get(refusal, -HOUR_SECONDS) < SAME_SECONDS or len(self._times) >= MOST_AN_HOUR:
            return False
        if len(self._told) >= MOST_AN_HOUR:
            self._told.clear()
        self._told[refusal] = now
        self._times.append(now)
        return True
