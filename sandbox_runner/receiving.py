"""The files of a message on their way into the workspace: waited for, placed, described.

Gateways fetch them; a turn waits for that within bounds and goes on without what does not come. Placing them needs the
tenancy of the volume, not its sandbox. What was found is journaled before it is used, so that a resumed turn neither
places a file twice nor calls it by another name; done again before that, it comes to the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from agent.sandbox import PlacedFile, SandboxUnavailable
from sandbox_runner import texts
from sandbox_runner.host import TurnSandbox
from sandbox_runner.sandboxes import ManagerAway
from workspace_store import attachments, principal
from workspace_store.attachments import File
from workspace_store.database import Database
from workspace_store.principal import Lease

POLL_SECONDS = (0.02, 0.05, 0.1, 0.2)
GRACE_SECONDS = 5.0
"""Beyond what a gateway has to fetch them: what it says about a failure is better than silence."""
BUSY_SECONDS = (0.5, 1.0, 2.0, 4.0)
"""A volume that is awake elsewhere may be free in a moment."""


@dataclass(frozen=True)
class Received:
    """What became of the files of a message. ``live_id``: of the live directory they are in; None: none was placed."""

    files: list[dict[str, Any]]
    live_id: str | None

    def to_json(self, message: UUID) -> dict[str, Any]:
        return {"message": message.hex, "live": self.live_id, "files": self.files}

    @property
    def described(self) -> list[dict[str, Any]]:
        """As the engine sees them: a blob's name means nothing to it."""
        return [{name: value for name, value in file.items() if name != "blob"} for file in self.files]

    @property
    def problems(self) -> list[str]:
        return [texts.file_problem(file["name"], file["problem"]) for file in self.files if file["problem"]]


async def recorded(body: Mapping[str, Any], sandbox: TurnSandbox) -> Received | None:
    """What an earlier attempt of the turn found, where it still holds; None: the files have to be placed again."""
    live_id = body["live"]
    if live_id is not None and (await sandbox.look()).live_id != live_id:
        return None
    return Received([dict(file) for file in body["files"]], live_id)


async def settled(
    database: Database, lease: Lease, message: UUID, seconds: float, safe: Callable[[], None]
) -> list[File]:
    """The files of a message once nothing is waited for; after ``seconds`` what is not there is given up.

    ``safe`` is called at each look: it raises where the turn is to end.
    """
    loop = asyncio.get_running_loop()
    ends, look = loop.time() + seconds + GRACE_SECONDS, 0
    while True:
        safe()
        found = await database.read(lambda connection: attachments.of(connection, [message]))
        if all(file.status != "waiting" for file in found):
            return found
        if loop.time() > ends:
            return await database.write(lambda connection: _given_up(connection, lease, message))
        await asyncio.sleep(POLL_SECONDS[min(look, len(POLL_SECONDS) - 1)])
        look += 1


def _given_up(connection: Connection, lease: Lease, message: UUID) -> list[File]:
    principal.fence(connection, lease)
    attachments.give_up(connection, [message], texts.FETCH_TOO_LATE)
    return attachments.of(connection, [message])


async def place(files: Sequence[File], sandbox: TurnSandbox) -> Received:
    """Put what is stored into the workspace. Raises ManagerAway: nothing is lost, try again."""
    wanted = [{"name": file.name, "blob": file.blob} for file in files if file.blob and file.status == "stored"]
    live_id, there = await _place(wanted, sandbox) if wanted else (None, [])
    placed = iter(there)
    found = []
    for file in files:
        become = next(placed) if file.blob and file.status == "stored" else PlacedFile("", file.reason or "")
        found.append(
            {
                "name": file.name, "content_type": file.content_type, "size": file.size, "path": become.path,
                "problem": become.problem, "blob": file.blob,
            }
        )  # fmt: skip
    return Received(found, live_id if any(file["path"] for file in found) else None)


async def _place(wanted: Sequence[Mapping[str, str]], sandbox: TurnSandbox) -> tuple[str | None, list[PlacedFile]]:
    for pause in (*BUSY_SECONDS, None):
        try:
            return await sandbox.place_files(wanted)
        except ManagerAway:
            raise
        except SandboxUnavailable as error:
            if pause is None:
                return None, [PlacedFile("", str(error))] * len(wanted)
            await asyncio.sleep(pause)
    raise AssertionError("the last pause is none")
