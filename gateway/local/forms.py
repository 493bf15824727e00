"""Messages with files, as forms (RFC 7578): bounded on the wire, in memory and in number."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from gateway.local import texts
from gateway.local.requests import MAX_BODY_BYTES, BadRequest
from workspace_store.file_limits import FileLimits

MAX_FIELDS = 10
MAX_TYPE_CHARACTERS = 200
FILES = "file"
"""The name of a form's field that holds a file; it may come several times."""


@dataclass(frozen=True)
class GivenFile:
    name: str
    content_type: str
    content: bytes


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "multipart/form-data"


async def read_form(request: Request, limits: FileLimits) -> tuple[dict[str, Any], tuple[GivenFile, ...]]:
    """The fields and files of a form. Raises BadRequest."""
    stream = _bounded(request, limits.max_message_bytes + MAX_BODY_BYTES)
    parser = MultiPartParser(
        request.headers, stream, max_files=limits.max_count, max_fields=MAX_FIELDS, max_part_size=MAX_BODY_BYTES
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise BadRequest(400, texts.not_a_form(error.message)) from None
    try:
        fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
        uploads = [(name, value) for name, value in form.multi_items() if isinstance(value, UploadFile)]
        if len(fields) + len(uploads) != len(form.multi_items()):
            raise BadRequest(400, texts.not_a_form("a field comes twice"))
        return fields, tuple([await _given(name, upload, limits) for name, upload in uploads])
    finally:
        await form.close()


async def _given(name: str, upload: UploadFile, limits: FileLimits) -> GivenFile:
    if name != FILES:
        raise BadRequest(400, texts.unknown_fields([name]))
    if (upload.size or 0) > limits.max_bytes:
        raise BadRequest(413, texts.file_too_large(limits.max_bytes))
    content_type = (upload.content_type or "").partition(";")[0].strip().lower()[:MAX_TYPE_CHARACTERS]
    return GivenFile(upload.filename or "", content_type, await upload.read())


async def _bounded(request: Request, most: int) -> AsyncGenerator[bytes]:
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > most:
        raise BadRequest(413, texts.too_long(most))
    seen = 0
    async for chunk in request.stream():
        seen += len(chunk)
        if seen > most:
            raise BadRequest(413, texts.too_long(most))
        yield chunk
