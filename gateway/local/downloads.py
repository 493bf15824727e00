"""Files of replies over HTTP: named in the reply, downloaded by whose message was answered, never shown as a page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

from starlette.responses import Response

from gateway.local import texts
from gateway.local.requests import BadRequest
from identity.access import OWNER
from workspace_store import names
from workspace_store.blobs import BlobCorrupt, BlobMissing, Blobs
from workspace_store.outbox import Said

PATH = "/v1/messages/{identifier}/files/{reply:int}/{number:int}"
UNSHOWN = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cache-control": "no-store",
}


def listed(said: Said, position: int, message_id: str, user: str) -> list[dict[str, Any]]:
    """The files of a reply, each with the path it is downloaded from."""
    query = f"?{urlencode({'user': user})}" if user != OWNER else ""
    base = f"/v1/messages/{quote(message_id, safe='')}/files/{position}"
    return [
        {
            "name": file["name"], "content_type": file["content_type"], "size": file["size"],
            "url": f"{base}/{number}{query}",
        }
        for number, file in enumerate(said.files)
    ]  # fmt: skip


async def download(
    blobs: Blobs | None, principal: UUID, replies: Sequence[Said], position: int, number: int
) -> Response:
    """A file of a reply. Raises BadRequest where there is none."""
    if blobs is None or position >= len(replies) or number >= len(replies[position].files):
        raise BadRequest(404, texts.NO_FILE)
    file: Mapping[str, Any] = replies[position].files[number]
    try:
        content = await asyncio.to_thread(blobs.get, principal, str(file["blob"]))
    except BlobMissing:
        raise BadRequest(404, texts.NO_FILE) from None
    except BlobCorrupt as error:
        raise BadRequest(500, str(error)) from error
    headers = {**UNSHOWN, "content-disposition": disposition(str(file["name"]))}
    return Response(content, media_type="application/octet-stream", headers=headers)


def disposition(name: str) -> str:
    """A Content-Disposition (RFC 6266) that saves under ``name``, whatever it holds."""
    safe = names.safe_name(name)
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in safe)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='')}"
