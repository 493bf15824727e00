"""Reading requests of the HTTP interface: bounded, checked, with a clear word about what is wrong."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.requests import Request

from gateway.local import texts
from identity.access import OWNER
from workspace_store.database import storable

MAX_BODY_BYTES = 4 << 20
_USER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_FIELDS = {"text", "message_id", "user", "thread", "more"}


class BadRequest(Exception):
    """A request that cannot be served: status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class MessageRequest:
    text: str
    message_id: str
    user: str
    thread: str
    more: bool = False
    """More of the same message follows at once."""


def check_token(request: Request, token: str) -> None:
    """Raises BadRequest 401."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise BadRequest(401, texts.NO_TOKEN)


async def read_body(request: Request, most: int = MAX_BODY_BYTES) -> bytes:
    """The body, never more than ``most`` bytes of it in memory. Raises BadRequest 413."""
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > most:
        raise BadRequest(413, texts.too_long(most))
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise BadRequest(413, texts.too_long(most))
    return bytes(body)


async def read_json(request: Request) -> dict[str, Any]:
    """A JSON object. Raises BadRequest."""
    try:
        found: Any = json.loads(await read_body(request))
    except (ValueError, RecursionError):
        raise BadRequest(400, texts.NOT_JSON) from None
    if not isinstance(found, dict):
        raise BadRequest(400, texts.NOT_AN_OBJECT)
    return found


def read_message(found: Mapping[str, Any], *, wordless: bool = False) -> MessageRequest:
    """The fields of a ``POST /v1/messages``; ``wordless``: files say enough. Raises BadRequest."""
    unknown = [storable(name) for name in found.keys() - _FIELDS]
    if unknown:
        raise BadRequest(400, texts.unknown_fields(unknown))
    text = found.get("text")
    if wordless and text is None:
        text = ""
    if not isinstance(text, str) or not (text.strip() or wordless):
        raise BadRequest(400, texts.NO_TEXT)
    message_id = found.get("message_id")
    if message_id is None:
        message_id = uuid4().hex
    if not isinstance(message_id, str) or not 1 <= len(message_id) <= 200 or not _plain(message_id):
        raise BadRequest(400, texts.BAD_ID)
    thread = found.get("thread")
    if thread is not None and (not isinstance(thread, str) or len(thread) > 200):
        raise BadRequest(400, texts.BAD_THREAD)
    more = found.get("more", False)
    if not isinstance(more, bool):
        raise BadRequest(400, texts.BAD_MORE)
    return MessageRequest(text, message_id, user_name(found.get("user")), thread or "", more)


def _plain(message_id: str) -> bool:
    return message_id.isprintable() and "/" not in message_id


def is_user_name(name: str) -> bool:
    """Whether somebody can be called so at the local channel."""
    return _USER.fullmatch(name) is not None


def user_name(value: object) -> str:
    """A name of the local channel; the owner's where none is given. Raises BadRequest 400."""
    if value is None or value == "":
        return OWNER
    if isinstance(value, str):
        name = value.removeprefix("local:")
        if is_user_name(name):
            return name
    raise BadRequest(400, texts.BAD_USER)
