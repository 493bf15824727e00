"""Running the functions of an operator's tools: never on the runner's loop, whatever they do.

A sync function runs in a thread of its own, an async one in a loop of the tools; one that blocks keeps nobody waiting
but other async tools. What is cut off is cancelled where that is possible, and otherwise left to end by itself.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What a function returned, or what it raised."""

    value: Any = None
    error: BaseException | None = None


class CutOff(Exception):
    """It was not waited for any longer; ``seconds`` None: the person said /stop."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__("it was cut off")
        self.seconds = seconds


class Workshop:
    """Where functions run; starts no thread before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._its_loop: asyncio.AbstractEventLoop | None = None

    async def call(
        self, function: Callable[..., Any], named: Mapping[str, Any], stopping: asyncio.Event, seconds: float
    ) -> Outcome:
        """What it comes to. Raises CutOff after ``seconds``, or when ``stopping`` is set."""
        working = asyncio.wrap_future(self._start(function, named))
        watching = asyncio.create_task(stopping.wait())
        try:
            either: set[asyncio.Future[Any]] = {working, watching}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise CutOff(None if stopping.is_set() else seconds)
        finally:
            watching.cancel()
            working.cancel()

    def _start(self, function: Callable[..., Any], named: Mapping[str, Any]) -> Future[Outcome]:
        if inspect.iscoroutinefunction(function):
            return asyncio.run_coroutine_threadsafe(_outcome(function(**named)), self._loop())
        result: Future[Outcome] = Future()

        def run() -> None:
            result.set_running_or_notify_cancel()
            result.set_result(self._run_here(function, named))

        threading.Thread(target=run, name="tool", daemon=True).start()
        return result

    def _run_here(self, function: Callable[..., Any], named: Mapping[str, Any]) -> Outcome:
        try:
            value = function(**named)
            if inspect.iscoroutine(value):
                return asyncio.run_coroutine_threadsafe(_outcome(value), self._loop()).result()
            return Outcome(value)
        except BaseException as error:
            return Outcome(error=error)

    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._its_loop is None:
                self._its_loop = asyncio.new_event_loop()
                threading.Thread(target=self._its_loop.run_forever, name="tools", daemon=True).start()
            return self._its_loop


async def _outcome(work: Coroutine[Any, Any, Any]) -> Outcome:
    """Whatever it raises is an outcome: sys.exit in a tool ends neither the loop nor the runner."""
    try:
        return Outcome(await work)
    except BaseException as error:
        return Outcome(error=error)
