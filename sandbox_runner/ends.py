"""Telling of background tasks that ended by themselves: each once, whatever is away or dies meanwhile.

The guest keeps an end in its state file until it was recorded here; what a dead manager left is told at the next wake.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from agent.sandbox import BackgroundTask, SandboxError
from sandbox_runner import texts
from sandbox_runner.guest.ends import is_worth_telling
from sandbox_runner.seats import Awake, Seat
from workspace_store import task_ends
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.tenancy import StaleTenancy

log = structlog.get_logger()

AGAIN_SECONDS = 1.0


@dataclass
class TaskEnds:
    """``ring`` is called for whoever has something to read now."""

    database: Database
    ring: Callable[[UUID], None]
    _telling: set[asyncio.Task[None]] = field(default_factory=set)

    def heard(self, seat: Seat, awake: Awake, task: BackgroundTask) -> None:
        """A task ended by itself: that is an event of its own, whether anybody is there or not."""
        if seat.quiet or task.task in seat.stopped:
            return
        self._start(seat, awake, task, told=is_worth_telling(task.argv, task.started_at))

    def left(self, seat: Seat, awake: Awake, task: BackgroundTask) -> None:
        """An end that an earlier sandbox kept for want of anybody to tell."""
        self._start(seat, awake, task, told=True)

    def _start(self, seat: Seat, awake: Awake, task: BackgroundTask, *, told: bool) -> None:
        telling = asyncio.create_task(self._tell(seat, awake, task, told))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, seat: Seat, awake: Awake, task: BackgroundTask, told: bool) -> None:
        output = ""
        with contextlib.suppress(SandboxError):
            output = await awake.guest.task_output(task.task, 2048) if told else ""
        # As cron does: what went well and said nothing is nobody's business.
        told = told and not (task.timer and task.exit_code == 0 and not output.strip())
        text = texts.task_ended(task.task, task.argv, task.exit_code, output) if told else ""
        body: dict[str, object] = {
            "task": task.task, "argv": list(task.argv), "exit_code": task.exit_code, "starts": task.starts,
            "started_at": task.started_at,
        }  # fmt: skip
        while seat.awake is awake:
            try:
                if await self.database.write(lambda connection: task_ends.record(connection, seat.tenancy, body, text)):
                    self.ring(seat.principal)
            except DatabaseUnavailable as error:
                log.warning("a task's end is told later", principal=str(seat.principal), reason=str(error))
                await asyncio.sleep(AGAIN_SECONDS)
            except StaleTenancy as error:
                log.warning("a task's end is another manager's to tell", reason=str(error))
                return
            else:
                with contextlib.suppress(SandboxError):
                    await awake.guest.told(task.task, task.starts)
                return
