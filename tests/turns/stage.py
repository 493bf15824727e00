"""A stage for one turn at a time: real database, volumes, sandbox manager and guest; only the engine is scripted."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from agent.engine import Engine, Step, ToolCall
from agent.progress import Progress
from agent.sandbox import SandboxLimits
from agent.toolbox import Toolbox
from agent.trajectory import Context
from identity.access import Access
from identity.users import Claim
from router.envelope import Attachment, Envelope
from router.inbox import Inbox, Settling
from router.runner import Runner
from router.service import read_message
from sandbox_runner.assignments import Arrivals
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.folding import Folder
from sandbox_runner.guest_connection import GUEST_FOLDER
from sandbox_runner.manager import Manager
from sandbox_runner.manager_server import listen
from sandbox_runner.sandboxes import Sandboxes
from sandbox_runner.seat_files import SeatFiles
from sandbox_runner.seats import Seating
from sandbox_runner.turn import TurnRunner
from sandbox_runner.uids import HostUids
from sandbox_runner.verifying import Verifier
from tests.sandboxes import run_folder
from workspace_store import inbox, journal, outbox
from workspace_store.blobs import DirectoryBlobs
from workspace_store.database import Database
from workspace_store.journal import Recorded
from workspace_store.liveness import Life
from workspace_store.volumes import Volumes

Script = Callable[[Context], Awaitable[Step]]


class Crash(BaseException):
    """Ends a turn as a SIGKILL would: nothing after it runs."""


@dataclass
class Scripted:
    """An engine that says what its script says, and counts how often it was asked."""

    script: Script
    takes_messages: bool = False
    looks_back: bool = True
    name: str = "scripted"
    context_window: int = 16_384
    asked: int = 0
    progress: Progress | None = None
    """Where the running turn's progress is told."""

    async def prepare(self) -> None:
        pass

    async def step(self, context: Context, progress: Progress) -> Step:
        self.asked += 1
        self.progress = progress
        return await self.script(context)


def shell(number: int, command: str) -> Step:
    return Step(calls=(ToolCall(f"call-{number}", "shell", {"command": command}),))


def answer(context: Context, text: str = "") -> Step:
    """Answer every message with ``text``, or with all results so far."""
    results = " ".join(said.text for said in context.turn if said.role == "tool")
    return Step(replies={said.message: text or results for said in context.turn if said.role == "user"})


@dataclass
class Stage:
    folder: Path
    url: str
    owner: UUID = field(default_factory=uuid4)
    told: list[dict[str, Any]] = field(default_factory=list)
    """News of turns."""
    fetch_seconds: float = 0.2
    arrivals: Arrivals = "steer"
    verifier: Verifier = field(default_factory=Verifier)
    folder_of_turns: Folder = field(default_factory=Folder)
    settling: Settling = field(default_factory=lambda: Settling(0.3, 1.0))
    toolbox: Toolbox = field(default_factory=Toolbox)
    host: str = "here"
    volumes: Path | None = None
    """Where volumes are, if not in the stage's own folder: storage that hosts share."""
    again: list[UUID] = field(default_factory=list)
    """Whom runners wanted to serve once more."""

    def __post_init__(self) -> None:
        self.lives = self.folder / "lives"
        self.database = Database(self.url)
        self.socket = self.folder / "manager.sock"
        self.blobs = DirectoryBlobs(self.folder / "blobs")
        self.manager: Manager | None = None

    @contextlib.asynccontextmanager
    async def managing(self, idle_seconds: float = 300, limits: SandboxLimits | None = None) -> AsyncIterator[Manager]:
        """A sandbox manager, as a host has one."""
        backend = BubblewrapBackend(run_folder(self.folder), host_uids=HostUids.of(self.folder))
        backend.reap()
        life = Life(self.lives, "sandbox-manager", self.host)
        volumes = Volumes(self.volumes or self.folder / "volumes")
        seating = Seating(life.id, self.database, volumes, self.lives, HostUids.of(self.folder))
        limits = limits or SandboxLimits(command_timeout_seconds=20)
        files = SeatFiles(self.blobs)
        manager = Manager(seating, backend, GUEST_FOLDER, limits, idle_seconds, lambda _: None, files)
        server = await listen(manager, self.socket)
        try:
            yield manager
        finally:
            server.close()
            await manager.close(5)
            life.end()

    async def hear(
        self,
        text: str,
        thread: str = "",
        *,
        user: str = "owner",
        room: str = "",
        attachments: Sequence[Attachment] = (),
        contents: Mapping[str, bytes] | None = None,
        more: bool = False,
        order: int = 0,
        key: str = "",
    ) -> UUID:
        """Accept a message from the owner or another user, in private or in a room; its inbox id."""
        access = Access("allowlist", ())
        door = Inbox(self.database, access, lambda _: None, blobs=self.blobs, settling=self.settling)
        claim = Claim("local", "", user, user, "token")
        files = tuple(attachments)
        said = Envelope(
            "local", "", key or uuid4().hex, claim, room or user, thread, text, attachments=files, shared=bool(room),
            more=more, order=order,
        )  # fmt: skip
        accepted = await door.accept(said, contents)
        assert accepted is not None
        self.owner = accepted.principal
        return accepted.message

    @contextlib.asynccontextmanager
    async def running(self, engine: Engine) -> AsyncIterator[Runner]:
        """A runner with this engine; ends as a killed one does: its lock is free, its lease stays."""
        life = Life(self.lives, "runner", self.host)
        sandboxes = Sandboxes(self.socket)
        turns = TurnRunner(
            self.database,
            engine,
            sandboxes,
            self.blobs,
            read_message,
            lambda _, news: self.told.append(news),
            fetch_seconds=self.fetch_seconds,
            arrivals=self.arrivals,
            verifier=self.verifier,
            folder=self.folder_of_turns,
            toolbox=self.toolbox,
        )
        try:
            runner = Runner(life.id, self.database, self.lives, turns, lambda *_: None)
            runner.again = lambda owner: self.again.append(owner) or True
            yield runner
        finally:
            sandboxes.close()
            life.end()

    async def serve(self, engine: Engine) -> None:
        """Drain the owner's inbox with a runner of its own."""
        async with self.running(engine) as runner:
            await runner.serve(self.owner)

    async def crash(self, engine: Engine) -> None:
        """The same, with a script that crashes."""
        async with self.running(engine) as runner:
            with contextlib.suppress(Crash):
                await runner.serve(self.owner)

    # What is there

    async def events(self, *kinds: str) -> list[Recorded]:
        found = await self.database.read(lambda connection: journal.read(connection, self.owner))
        return [event for event in found if not kinds or event.kind in kinds]

    async def replies(self, message: UUID) -> list[str]:
        said = await self.database.read(lambda connection: outbox.answers(connection, message))
        return [reply.text for reply in said]

    async def status(self, message: UUID) -> str:
        row = await self.database.read(lambda connection: inbox.get(connection, message))
        assert row is not None
        return row.status

    async def verified(self) -> bool:
        _, faults = await self.database.read(lambda connection: journal.verify(connection, self.owner))
        return not faults
