"""Files at the command line: read to be sent, and kept where they are wanted, never over another."""

from __future__ import annotations

import mimetypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from nightporter.cli import texts
from nightporter.errors import CommandError
from workspace_store import names


@dataclass(frozen=True)
class Upload:
    name: str
    content_type: str
    content: bytes


class Source(Protocol):
    """Where the files of replies are."""

    async def download(self, path: str) -> bytes: ...

    def url(self, path: str) -> str: ...


def new_private(path: str | Path) -> BinaryIO:
    """A file to write that nobody else can read, never over another. Raises FileExistsError and other OSErrors."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600))


def upload(path: Path) -> Upload:
    """A file to be sent. Raises CommandError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CommandError(texts.file_unreadable(path, error.strerror or str(error))) from error
    return Upload(path.name, mimetypes.guess_type(path.name)[0] or "application/octet-stream", content)


async def with_files(source: Source, reply: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """A reply whose files say where they are: ``saved`` in the folder, or at their whole ``url``."""
    given = reply.get("files", [])
    found = [{**file, "url": source.url(str(file["url"]))} for file in given]
    for file, asked in zip(found, given if folder else [], strict=False):
        assert folder is not None
        file["saved"] = str(save(folder, str(file["name"]), await source.download(str(asked["url"]))))
    return {**reply, "files": found} if found else reply


def save(folder: Path, name: str, content: bytes) -> Path:
    """Write a file into a folder, numbered where its name is taken. Raises CommandError."""
    safe, number = names.safe_name(name), 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            path = folder / names.numbered(safe, number)
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                number += 1
            else:
                return path
    except OSError as error:
        raise CommandError(texts.not_saved(folder, error.strerror or str(error))) from error
