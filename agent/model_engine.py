"""The engine that asks models: loads their libraries when it is first needed, off the event loop.

Importing them takes seconds and tens of megabytes, so nothing here imports them before ``prepare``: a service is ready
first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.engine import Step
from agent.models.names import ModelName
from agent.progress import SILENT, Progress
from agent.trajectory import Context

if TYPE_CHECKING:
    from agent.models.chain import Chain

CONTEXT_WINDOW = 128_000
"""Of a model that does not say: what nearly all of today's take."""


class ModelEngine:
    """Asks the first of ``models`` that can be asked. ``context_window`` in tokens."""

    name = "model"
    takes_messages = True
    looks_back = True

    def __init__(
        self,
        models: Sequence[ModelName],
        context_window: int | None = None,
        timeout_seconds: float = 120.0,
        stream: bool = False,
    ) -> None:
        self.context_window = context_window or CONTEXT_WINDOW
        self._models, self._timeout, self._stream = models, timeout_seconds, stream
        self._loading = asyncio.Lock()
        self._chain: Chain | None = None

    async def prepare(self) -> None:
        """Load the libraries, so that the first message need not wait for them."""
        await self._loaded()

    async def step(self, context: Context, progress: Progress = SILENT) -> Step:
        """The next step. Raises EngineUnavailable or EngineError."""
        return await (await self._loaded()).step(context, progress)

    async def aclose(self) -> None:
        """Close its connections, in the loop that they were opened in."""
        if self._chain is not None:
            await self._chain.aclose()
            self._chain = None

    async def _loaded(self) -> Chain:
        async with self._loading:
            if self._chain is None:
                self._chain = await asyncio.to_thread(self._load)
            return self._chain

    def _load(self) -> Chain:
        from agent.models import candidates
        from agent.models.breaker import Breaker
        from agent.models.chain import Chain

        found = [candidates.make(name, self._timeout, Breaker(time.monotonic)) for name in self._models]
        return Chain(found, self._timeout, self._stream)
