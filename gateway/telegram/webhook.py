"""The webhook: an update is answered with 200 only after it is recorded. https://core.telegram.org/bots/api#setwebhook

An update that shows that more of its message is coming is answered when that has come, or nothing came: until then
Telegram keeps it.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from gateway.telegram.intake import Intake
from gateway.telegram.parse import load
from gateway.telegram.parsed import Parsed
from gateway.telegram.settle import MOST_SECONDS, QUIET_SECONDS, expects_more

log = structlog.get_logger()

PATH = "/telegram/webhook"
SECRET_HEADER = "x-telegram-bot-api-secret-token"
MAX_BODY_BYTES = 4 << 20

Item = tuple[Mapping[str, Any], Parsed]


@dataclass
class _Strand:
    """Updates of one person in one chat that wait for more."""

    items: list[Item] = field(default_factory=list)
    recorded: asyncio.Future[None] | None = None


@dataclass
class Webhook:
    """``intake``: None until it is known who the agent is; then Telegram is told to try again."""

    secret: str
    intake: Callable[[], Intake | None]
    _strands: dict[tuple[int | None, int | None], _Strand] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __call__(self, request: Request) -> Response:
        given = request.headers.get(SECRET_HEADER, "")
        if not hmac.compare_digest(given.encode(), self.secret.encode()):
            return Response("the secret is wrong", 401)
        declared = request.headers.get("content-length", "")
        if not declared.isdigit() or int(declared) > MAX_BODY_BYTES:
            return Response("too long", 413)
        intake = self.intake()
        if intake is None:
            return Response("not ready", 503)
        update = load(await request.body())
        try:
            await self._take(intake, (update, intake.read(update)))
        except Exception as error:
            log.warning("telegram update not recorded; it comes again", reason=str(error))
            return Response("try again", 503)
        return Response(status_code=200)

    def _take(self, intake: Intake, item: Item) -> Awaitable[None]:
        key = (item[1].channel, item[1].user)
        strand = self._strands.get(key)
        if strand is None and not expects_more(item[1]):
            return intake.record([item])
        if strand is None:
            strand = self._strands[key] = _Strand(recorded=asyncio.get_running_loop().create_future())
            task = asyncio.create_task(self._settle(intake, key, strand))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        strand.items.append(item)
        assert strand.recorded is not None
        return asyncio.shield(strand.recorded)

    async def _settle(self, intake: Intake, key: tuple[int | None, int | None], strand: _Strand) -> None:
        assert strand.recorded is not None
        ends = asyncio.get_running_loop().time() + MOST_SECONDS
        count = 0
        while len(strand.items) > count and asyncio.get_running_loop().time() < ends:
            count = len(strand.items)
            await asyncio.sleep(QUIET_SECONDS)
        del self._strands[key]
        try:
            # Telegram calls in parallel: the order of arrival is not that of the ids.
            await intake.record(sorted(strand.items, key=lambda item: int(item[0].get("update_id") or 0)))
        except Exception as error:
            strand.recorded.set_exception(error)
        else:
            strand.recorded.set_result(None)
