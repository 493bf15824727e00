"""Intake: a message is durably recorded in one transaction, and only then acknowledged to its platform.

Duplicates are acknowledged and dropped. Unproven senders are dropped before anything of theirs is stored, and what
is over a limit with them; strangers get what the access policy says (``router.strangers``). Bytes that come with a
message are blobs before it is acknowledged; files that a platform keeps are only named, and fetched after.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from identity import codes, names, reach, rooms, vouching
from identity.access import Access, admit, admit_to_room
from identity.limits import Limits, Verdict
from identity.rooms import Room
from identity.users import User
from router import commands, files, joining, strangers, texts
from router.actions import Woken
from router.doors import Doors
from router.envelope import Envelope
from workspace_store import attachments, bursts, inbox, inbox_counts, journal, outbox, principal
from workspace_store.approvals import Hooks
from workspace_store.blobs import Blobs
from workspace_store.crash_points import Point, reached
from workspace_store.database import Database, database_now_us, now_us
from workspace_store.disk_room import DiskRoom
from workspace_store.file_limits import FileLimits
from workspace_store.journal import Event
from workspace_store.outbox import Address
from workspace_store.schedule_limits import ScheduleLimits

log = structlog.get_logger()

JOURNALED_CHARACTERS = 2000
JOURNALED_FILES = 50
CLASHES = 4


@dataclass(frozen=True)
class Accepted:
    """A message that is recorded. ``duplicate``: it was recorded before. ``owner``: who serves the principal now."""

    message: UUID
    principal: UUID
    duplicate: bool
    acted: bool
    """A command that acted at intake: its answer is in the outbox, there is nothing to serve."""
    owner: str | None
    woken: tuple[Woken, ...] = ()
    """Whose inbox got a row by what acted at intake."""
    manager: str | None = None
    """Who keeps the principal's sandbox warm."""


Ring = Callable[[Accepted], None]


@dataclass(frozen=True)
class Settling:
    """How long more of a message is waited for after each sign of it, and altogether; seconds."""

    quiet: float = 0.8
    most: float = 3.0


@dataclass
class Inbox:
    """The door every channel goes through. ``ring`` is called after the commit, for what a runner has to serve.

    ``hooks``: what happens with an approval's answer, by kind.
    """

    database: Database
    access: Access
    ring: Ring
    hooks: Hooks = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    blobs: Blobs | None = None
    """Where contents are kept; None where no channel brings any."""
    file_limits: FileLimits = field(default_factory=FileLimits)
    doors: Doors = field(default_factory=Doors)
    settling: Settling = Settling()
    schedules: ScheduleLimits = field(default_factory=ScheduleLimits)
    room: DiskRoom = field(default_factory=DiskRoom)

    async def accept(self, envelope: Envelope, contents: Mapping[str, bytes] | None = None) -> Accepted | None:
        """Record a message; None: not admitted, nothing stored, nothing to answer.

        ``contents``: the bytes of blobs that the envelope names, by hash; they are kept when this returns, also those
        that a duplicate brings once more because the first time was cut off. Raises DatabaseUnavailable and OSError:
        not recorded as a whole, the platform must be told to try again; DiskFull: nothing of it was written.
        """
        self.room.check(sum(map(len, contents.values())) if contents else 0)
        reached(Point.INTAKE_HEARD)
        accepted = await self._record_once(envelope)
        reached(Point.INTAKE_RECORDED)
        if accepted is None:
            log.info("not admitted", channel=envelope.channel, proof=envelope.sender.proof or "none")
            return None
        if not accepted.duplicate:
            self.ring(accepted)
            reached(Point.INTAKE_RUNG)
        if contents and not accepted.acted:
            await self._keep(accepted, contents)
        return accepted

    async def _keep(self, accepted: Accepted, contents: Mapping[str, bytes]) -> None:
        """Keep what the message, as it was recorded first, names and does not have yet."""
        wanted = await self.database.read(lambda connection: _wanted(connection, accepted.message))
        assert self.blobs is not None, "contents need a place"
        for blob in contents.keys() & wanted:
            await asyncio.to_thread(self.blobs.put, accepted.principal, contents[blob])
        await self.database.write(lambda c: attachments.stored(c, accepted.message, list(contents)))

    async def _record_once(self, envelope: Envelope) -> Accepted | None:
        judge = self._judge(envelope)
        for _ in range(CLASHES):
            with contextlib.suppress(IntegrityError):
                # The same message, or the same new sender, at the same moment: next time it is there to be found.
                return await self.database.write(lambda connection: self._record(connection, envelope, judge))
        return await self.database.write(lambda connection: self._record(connection, envelope, judge))

    def _judge(self, envelope: Envelope) -> Callable[[], Verdict]:
        """Asks the limits once, however often the transaction runs. Whoever holds the local token has none."""
        sender = envelope.sender
        if sender.channel == "local":
            return lambda: "take"
        return functools.cache(lambda: self.limits.judge(envelope.channel, envelope.account, sender.external_id))

    def _record(self, connection: Connection, envelope: Envelope, judge: Callable[[], Verdict]) -> Accepted | None:
        there = inbox.find(connection, envelope.dedupe_key)
        if there is not None:
            return Accepted(there.id, there.principal, True, there.kind == "command", None)
        if envelope.sender.proof:
            joining.join_vouched(connection, envelope)
        admitted = admit_to_room if envelope.shared else admit
        user = admitted(connection, envelope.sender, self.access)
        if user is None:
            answered = strangers.hear(connection, envelope, self.access)
            return Accepted(uuid4(), principal.HOUSE, False, True, None) if answered else None
        vouching.remember(connection, envelope.sender)
        verdict = judge()
        if verdict == "drop":
            return None
        room = _room(connection, envelope) if envelope.shared else None
        if room is not None:
            envelope = replace(envelope, speaker=names.speaker(user.display_name, user.id))
        command = commands.find(envelope.text) if verdict == "take" else (self._over_limit(), "")
        if command is not None and command[0].secret:
            envelope = replace(envelope, text=codes.masked(envelope.text))
        heard = _Heard(uuid4(), envelope, user, room)
        counted = inbox_counts.received_at(connection, heard.owner)
        starts = command[0].starts if command is not None else None
        if starts is not None:
            command = None
        kind = starts or ("message" if command is None else "command")
        burst = self._settle(connection, heard) if kind == "message" and counted.waits else None
        settles_at = self._settles_at(connection, heard, burst, acted=kind != "message")
        _insert(connection, heard, counted.seq, kind, burst=burst, settles_at=settles_at)
        journal.append(connection, heard.owner, [_received(heard)], under=None, locked=counted.head)
        if envelope.attachments and command is None and starts is None:
            prepared = files.prepare(envelope.attachments, self.file_limits)
            attachments.insert(connection, heard.id, heard.owner, envelope.channel, envelope.account, prepared)
        woken: tuple[Woken, ...] = ()
        if command is not None:
            inbox_counts.drained(connection, heard.owner)
            woken = self._act(connection, heard, *command)
        return Accepted(heard.id, heard.owner, False, command is not None, counted.owner, woken, counted.manager)

    def _settle(self, connection: Connection, heard: _Heard) -> UUID | None:
        """The row that this message belongs to, which goes on settling if this one shows a sign as well."""
        place = heard.place
        strand = (place.channel, place.account, place.conversation, place.thread)
        first = bursts.settling(connection, heard.owner, heard.user.id, strand)
        if first is None:
            return None
        now = database_now_us(connection)
        until = min(now + int(self.settling.quiet * 1e6), first.received_at + int(self.settling.most * 1e6))
        bursts.settle(connection, first.id, until if heard.envelope.more else 0)
        return first.id

    def _settles_at(self, connection: Connection, heard: _Heard, burst: UUID | None, *, acted: bool) -> int:
        """A lone message never waits; a first one does, after a sign that more is coming."""
        if acted or burst is not None or not heard.envelope.more:
            return 0
        return database_now_us(connection) + int(min(self.settling.quiet, self.settling.most) * 1e6)

    def _act(self, connection: Connection, heard: _Heard, command: commands.Command, rest: str) -> tuple[Woken, ...]:
        """Run a command and answer it: where it was said, or in private what is not for a room to see."""
        asked = commands.Asked(
            heard.user,
            heard.owner,
            rest,
            heard.envelope,
            self.access,
            heard.room,
            self.hooks,
            self.doors,
            self.schedules,
        )
        if heard.room is None or command.for_rooms:
            said = _said(command.answer(connection, asked))
            _answer(connection, heard, heard.owner, heard.place, said, heard.envelope.reply)
            return said.woken
        claim = heard.envelope.sender
        private = reach.at(connection, heard.user.id, claim.channel, claim.account)
        woken: tuple[Woken, ...] = ()
        if private is not None:
            said = _said(command.answer(connection, replace(asked, principal=heard.user.id, room=None)))
            woken = said.woken
            _answer(connection, heard, heard.user.id, private, said, {})
        told = commands.Said(texts.ANSWERED_IN_PRIVATE)
        _answer(connection, heard, heard.owner, heard.place, told, heard.envelope.reply, position=1)
        return woken

    def _over_limit(self) -> commands.Command:
        text = texts.over_limit(self.limits.sender, self.limits.channel)
        return commands.Command("", lambda connection, asked: text, for_rooms=True)


def _wanted(connection: Connection, message: UUID) -> set[str]:
    """The blobs of a message that are not known to be kept."""
    row = inbox.get(connection, message)
    raw = Envelope.from_json(row.envelope).raw if row else ""
    found = attachments.of(connection, [message])
    return {raw, *(file.blob for file in found if file.blob and file.status == "waiting")}


@dataclass(frozen=True)
class _Heard:
    """An admitted message: by whom, and in which room, if it is one."""

    id: UUID
    envelope: Envelope
    user: User
    room: Room | None

    @property
    def owner(self) -> UUID:
        """The principal it belongs to."""
        return self.room.id if self.room is not None else self.user.id

    @property
    def place(self) -> Address:
        at = self.envelope
        return Address(at.channel, at.account, at.conversation, at.thread)


def _room(connection: Connection, envelope: Envelope) -> Room:
    return rooms.enter(connection, envelope.channel, envelope.account, envelope.conversation, envelope.title)


def _insert(connection: Connection, heard: _Heard, seq: int, kind: str, *, burst: UUID | None, settles_at: int) -> None:
    """A row of that kind; a command has acted when it is read."""
    envelope = heard.envelope
    inbox.insert(
        connection,
        status="done" if kind == "command" else "pending",
        id=heard.id,
        dedupe_key=envelope.dedupe_key,
        principal=heard.owner,
        seq=seq,
        kind=kind,
        actor=heard.user.id,
        channel=envelope.channel,
        account=envelope.account,
        conversation=envelope.conversation,
        thread=envelope.thread,
        envelope=envelope.to_json(),
        # How long a burst settles at most is counted from here, by the clock that all hosts share.
        received_at=database_now_us(connection) if settles_at else now_us(),
        burst=burst,
        settles_at=settles_at,
    )


def _received(heard: _Heard) -> Event:
    envelope = heard.envelope
    body = {
        "message": heard.id.hex,
        "channel": envelope.channel,
        "from": heard.user.id.hex,
        "text": envelope.text[:JOURNALED_CHARACTERS],
        "characters": len(envelope.text),
        **({"files": [file.name for file in envelope.attachments[:JOURNALED_FILES]]} if envelope.attachments else {}),
    }
    return Event("message.received", body | ({"speaker": envelope.speaker} if heard.room else {}))


def _said(answer: str | commands.Said) -> commands.Said:
    return commands.Said(answer) if isinstance(answer, str) else answer


def _answer(
    connection: Connection,
    heard: _Heard,
    owner: UUID,
    to: Address,
    said: commands.Said,
    reply: Mapping[str, Any],
    *,
    position: int = 0,
) -> None:
    """Queue the answer to a command as ``owner``'s."""
    content: dict[str, Any] = {"text": said.text, "reply": dict(reply)}
    if said.buttons:
        content["buttons"] = [dict(item) for item in said.buttons]
    if said.decided:
        content["decided"] = True
    if said.secret:
        content["secret"] = True
    outbox.queue(
        connection,
        key=f"{heard.id.hex}:{position}",
        principal=owner,
        turn=None,
        inbox=heard.id,
        to=to,
        content=content,
    )
    text = codes.masked(said.text) if said.secret else said.text
    event = Event("reply.queued", {"message": heard.id.hex, "text": text})
    journal.append(connection, owner, [event], under=None)
