"""The backend where none works: every tool is refused with the reason and the remedy, and nothing runs on the host."""

from __future__ import annotations

from pathlib import Path

from agent.sandbox import SandboxUnavailable
from sandbox_runner.backend import Launch, Probe, RunningSandbox


class NoBackend:
    """Refuses."""

    name = "none"
    image = ""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def reap(self) -> list[str]:
        return []

    async def probe(self) -> Probe:
        return Probe(False, self._reason)

    async def warm(self, guest: Path) -> None:
        """There is nothing that could be done ahead."""

    async def start(self, launch: Launch) -> RunningSandbox:
        raise SandboxUnavailable(self._reason)

    async def close(self) -> None:
        return
