"""``POST /hooks/{name}``: a signed delivery becomes a message, recorded before it is acknowledged, once.

Whether a hook exists cannot be told from outside: without the right signature every name is answered alike, after the
same work. A delivery is known again by its sender's id for it and by all that was signed.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.hooks import intake, template, texts
from gateway.hooks.signatures import Signed, verify
from gateway.local.requests import BadRequest, read_body
from gateway.settings import HookSettings
from identity.access import Access
from identity.limits import Limits
from router.inbox import Accepted, Ring
from workspace_store.database import Database, DatabaseUnavailable, storable

log = structlog.get_logger()

CHANNEL = "hook"


@dataclass
class Hooks:
    """What the route stands on. ``ring`` is called after the commit."""

    settings: Mapping[str, HookSettings]
    database: Database
    access: Access
    limits: Limits
    ring: Ring
    max_bytes: int
    _nobody: HookSettings = field(
        default_factory=lambda: HookSettings(secret=secrets.token_hex(32), template="nobody knows this secret")
    )

    def routes(self) -> list[Route]:
        return [Route("/hooks/{name}", self._deliver, methods=["POST"])]

    async def _deliver(self, request: Request) -> Response:
        try:
            return await self._take(str(request.path_params["name"]), request)
        except BadRequest as error:
            return JSONResponse({"error": error.reason}, error.status)
        except DatabaseUnavailable:
            return JSONResponse({"error": texts.TRY_AGAIN}, 503, {"retry-after": "1"})
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody

    async def _take(self, name: str, request: Request) -> Response:
        body = await read_body(request, self.max_bytes)
        headers = {key.lower(): value for key, value in request.headers.items()}
        hook = self.settings.get(name, self._nobody)
        signed = verify(hook.secret, headers, body, time.time(), hook.signature)
        if signed is None:
            raise BadRequest(401, texts.REFUSED)
        if not signed.timely:
            raise BadRequest(401, texts.TOO_OLD)
        if self.limits.judge(CHANNEL, "", name) != "take":
            return JSONResponse({"error": texts.TOO_MANY}, 429, {"retry-after": "60"})
        return await self._record(name, hook, signed, headers, body)

    async def _record(
        self, name: str, hook: HookSettings, signed: Signed, headers: Mapping[str, str], body: bytes
    ) -> Response:
        text = storable(body.decode("utf-8", "replace"))
        told = _read(text, headers.get("content-type", ""))
        said = intake.Delivery(
            name,
            storable(signed.id),
            signed.digest,
            template.render(hook.template, name, storable(signed.id), headers, told),
            texts.delivered(name, storable(signed.id), text),
        )
        recorded: Accepted | None
        transaction = partial(_accept, said=said, who=hook.user, access=self.access)
        try:
            recorded = await self.database.write(transaction)
        except IntegrityError:
            # The same delivery at the same moment: now it is there to be found.
            recorded = await self.database.write(transaction)
        if recorded is None:
            log.warning("a delivery has nobody to go to", hook=name, user=hook.user)
            return JSONResponse({"error": texts.NOBODY}, 503, {"retry-after": "60"})
        if not recorded.duplicate:
            self.ring(recorded)
        return JSONResponse({"message_id": recorded.message.hex}, 202)


def _accept(connection: Connection, said: intake.Delivery, who: str, access: Access) -> Accepted | None:
    return intake.accept(connection, said, who, access)


def _read(text: str, content_type: str) -> Any:
    """The body as values can be taken from it; None where it has none."""
    if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        # GitHub sends JSON as one field of a form where its hook is set so; others send fields.
        fields = {key: values[-1] for key, values in parse_qs(text, max_num_fields=1000).items()}
        return _json(fields["payload"]) if set(fields) == {"payload"} else fields
    return _json(text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
