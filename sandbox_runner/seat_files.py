"""Files between the blobs of a principal and its volume: what came with a message goes in, what is sent comes out.

The volume is hostile: a sandbox may be writing in it at the same moment. Nothing here follows a link, waits for a FIFO
or reads anything but a plain file. Calls block: run them in a thread.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.sandbox import FrozenFile, PlacedFile, SandboxError
from sandbox_runner import texts
from sandbox_runner.seats import Seat
from workspace_store.beneath import UnsafePath
from workspace_store.blobs import BlobCorrupt, BlobMissing, Blobs
from workspace_store.live import FileTooLarge
from workspace_store.packs import VolumeError

TREES: Mapping[str, str] = {"/workspace": "workspace", "/home/porter": "home"}
"""Where the sandbox sees what of the volume."""
FOLDERS = ("inbox", *(f"inbox-{number}" for number in range(2, 10)))
"""Below the workspace; a later one where something else was put in the place of those before it."""


@dataclass
class SeatFiles:
    """``blobs``: the store that gateways and runners share."""

    blobs: Blobs

    def place(self, seat: Seat, files: Sequence[Mapping[str, Any]]) -> list[PlacedFile]:
        """Write blobs (``name``, ``blob``) into the inbox folder; the same again changes nothing. Never raises for
        one file: each says where it is or why it is not."""
        return [self._place(seat, str(file["name"]), str(file["blob"])) for file in files]

    def _place(self, seat: Seat, name: str, blob: str) -> PlacedFile:
        try:
            data = self.blobs.get(seat.principal, blob)
        except (BlobMissing, BlobCorrupt, OSError) as error:
            return PlacedFile("", str(error))
        problem = ""
        for folder in FOLDERS:
            try:
                path = seat.volume.put_file(f"workspace/{folder}", name, data)
            except (UnsafePath, PermissionError) as error:
                problem = texts.no_inbox(folder, str(error))
            except (VolumeError, OSError) as error:
                return PlacedFile("", str(error))
            else:
                return PlacedFile(f"/{path}", "")
        return PlacedFile("", problem)

    def freeze(self, seat: Seat, path: str, most: int) -> FrozenFile:
        """Keep the bytes of a file as they are now. Raises SandboxError with why it is not sent."""
        inside = in_volume(path)
        try:
            data = seat.volume.read_file(inside, max_bytes=most)
            return FrozenFile(posixpath.basename(inside), len(data), self.blobs.put(seat.principal, data))
        except FileTooLarge as error:
            raise SandboxError(texts.too_large_to_send(path, most)) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SandboxError(texts.no_such_file(path)) from error
        except UnsafePath as error:
            raise SandboxError(texts.no_plain_file(path)) from error
        except (VolumeError, OSError) as error:
            raise SandboxError(texts.unreadable(path, str(error))) from error


def in_volume(path: str) -> str:
    """A path as a person in the sandbox writes it, relative to ``/workspace``, as a path of the volume.

    Raises SandboxError for what is not below ``/workspace`` or ``/home/porter``.
    """
    written = f"/home/porter/{path[2:]}" if path.startswith("~/") else path
    whole = posixpath.normpath(posixpath.join("/workspace", written))
    for seen, tree in TREES.items():
        if whole.startswith(f"{seen}/") and "\0" not in whole:
            return tree + whole[len(seen) :]
    raise SandboxError(texts.outside(path))
