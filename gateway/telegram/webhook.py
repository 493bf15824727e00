"""The webhook: an update is answered with 200 only after it is recorded. https://core.telegram.org/bots/api#setwebhook"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from starlette.requests import Request
from starlette.responses import Response

from gateway.telegram.intake import Intake
from gateway.telegram.parse import load

log = structlog.get_logger()

PATH = "/telegram/webhook"
SECRET_HEADER = "x-telegram-bot-api-secret-token"
MAX_BODY_BYTES = 4 << 20


@dataclass
class Webhook:
    """``intake``: None until it is known who the agent is; then Telegram is told to try again."""

    secret: str
    intake: Callable[[], Intake | None]

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
            await intake.record([(update, intake.read(update))])
        except Exception as error:
            log.warning("telegram update not recorded; it comes again", reason=str(error))
            return Response("try again", 503)
        return Response(status_code=200)
