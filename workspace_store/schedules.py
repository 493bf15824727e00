"""Schedules: what a person wants said again later, as rows; ``router.schedules`` says it when it is due.

A schedule belongs to a principal and is somebody's word. Whoever fires one moves its next due time on in the same
transaction as it writes the inbox row, and only if nobody else has: it is said once however many look.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, Text, delete, func, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store import journal, short_codes
from workspace_store import principal as principals
from workspace_store.approval_rows import Place
from workspace_store.database import database_now_us, storable, table, to_json
from workspace_store.journal import Event
from workspace_store.outbox import Address
from workspace_store.recurrence import BadTime, Recurrence
from workspace_store.schedule_limits import ScheduleLimits
from workspace_store.schedule_words import Missed, in_words

Status = Literal["active", "paused", "done"]

CODE_CHARACTERS = 6
TEXT_CHARACTERS = 4000
DUE = text("schedule.status = 'active'")


class ScheduleRow(SQLModel, table=True):
    """``user``: whose word it is. ``external_id``: as whom they spoke where it was made. Times in microseconds."""

    __tablename__ = "schedule"
    __table_args__ = (
        Index("schedule_due", "next_due", sqlite_where=text("status = 'active'"),
              postgresql_where=text("status = 'active'")),
        Index("schedule_of", "principal"),
    )  # fmt: skip

    id: UUID = Field(primary_key=True)
    code: str = Field(unique=True)
    principal: UUID = Field(foreign_key="principal.id")
    user: UUID
    kind: str
    spec: str
    zone: str
    anchor: int = Field(sa_column=Column(BigInteger, nullable=False))
    text: str = Field(sa_column=Column(Text, nullable=False))
    missed: str
    to_last: bool
    channel: str
    account: str
    conversation: str
    thread: str
    reply: str = Field(sa_column=Column(Text, nullable=False))
    external_id: str
    status: str
    next_due: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    last_due: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    last_row: UUID | None = None
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    runs: int = 0
    note: str = ""


schedule = table(ScheduleRow)


@dataclass(frozen=True)
class Schedule:
    """A schedule as read. ``note``: why it was not said the last time, for people; empty where it was."""

    id: UUID
    code: str
    principal: UUID
    user: UUID
    when: Recurrence
    text: str
    missed: Missed
    to_last: bool
    place: Place
    external_id: str
    status: Status
    next_due: int | None
    last_due: int | None
    last_row: UUID | None
    created_at: int
    runs: int
    note: str


@dataclass(frozen=True)
class Wanted:
    """A schedule that is to be made."""

    when: Recurrence
    text: str
    missed: Missed = "catch-up"
    to_last: bool = False

    def to_json(self) -> dict[str, Any]:
        when = {"kind": self.when.kind, "spec": self.when.spec, "zone": self.when.zone, "anchor": self.when.anchor}
        return {"when": when, "text": self.text, "missed": self.missed, "to_last": self.to_last}

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Wanted:
        return Wanted(Recurrence(**body["when"]), body["text"], body["missed"], body["to_last"])


def check(connection: Connection, owner: UUID, wanted: Wanted, limits: ScheduleLimits) -> int:
    """When it is first due. Raises BadTime where it is not to be made."""
    now = database_now_us(connection)
    first = wanted.when.after(now)
    if first is None:
        raise BadTime(f"{in_words(wanted.when)} is over")
    if not wanted.text.strip():
        raise BadTime("say after the time what I am to be told then: `every day at 7:30: what is new?`")
    if len(wanted.text) > TEXT_CHARACTERS:
        raise BadTime(f"what is to be said is longer than {TEXT_CHARACTERS:,} characters")
    if wanted.when.shortest_seconds(now) < limits.shortest_seconds:
        most = f"every {limits.shortest_seconds} seconds"
        raise BadTime(f"more often than {most} is too often (`schedules.shortest_seconds`)")
    if count(connection, owner) >= limits.most:
        raise BadTime(f"there are {limits.most} schedules already (`schedules.most`); remove one first")
    return first


def add(
    connection: Connection, owner: UUID, user: UUID, wanted: Wanted, at: Place, external_id: str,
    limits: ScheduleLimits,
    *, code: str = "", turn: UUID | None = None,
) -> Schedule:  # fmt: skip
    """Make a schedule. Raises BadTime."""
    principals.lock(connection, owner)
    first = check(connection, owner, wanted, limits)
    identifier, when = uuid4(), wanted.when
    connection.execute(
        schedule.insert().values(
            id=identifier, code=code or fresh_code(connection), principal=owner, user=user, kind=when.kind,
            spec=when.spec, zone=when.zone, anchor=when.anchor, text=storable(wanted.text.strip()),
            missed=wanted.missed, to_last=wanted.to_last, channel=at.address.channel, account=at.address.account,
            conversation=at.address.conversation, thread=at.address.thread, reply=to_json(dict(at.reply)),
            external_id=external_id, status="active", next_due=first, created_at=database_now_us(connection), runs=0,
            note="",
        )
    )  # fmt: skip
    made = get(connection, identifier)
    _record(connection, made, "schedule.added", {"when": in_words(when), "text": made.text, "due": first}, turn)
    return made


def pause(connection: Connection, found: Schedule) -> bool:
    """Let it rest; False where it does already, or is over."""
    return _change(connection, found, ("active",), "paused", None)


def resume(connection: Connection, found: Schedule) -> bool:
    """Let it go on from now: what came meanwhile was not missed. False where it goes on, or is over."""
    due = found.when.after(database_now_us(connection))
    return due is not None and _change(connection, found, ("paused",), "active", due)


def remove(connection: Connection, found: Schedule) -> bool:
    """Remove it for good."""
    if connection.execute(delete(schedule).where(schedule.c.id == found.id)).rowcount != 1:
        return False
    _record(connection, found, "schedule.changed", {"to": "removed"})
    return True


def remove_saying(connection: Connection, scope: Sequence[UUID], words: str) -> None:
    """Remove those that would say these words, which are forgotten."""
    mine = (schedule.c.principal.in_(scope), schedule.c.text.contains(words, autoescape=True))
    for row in connection.execute(select(schedule).where(*mine)).all():
        remove(connection, read(row))


def _change(connection: Connection, found: Schedule, of: tuple[Status, ...], to: Status, due: int | None) -> bool:
    changed = connection.execute(
        update(schedule)
        .where(schedule.c.id == found.id, schedule.c.status.in_(of))
        .values(status=to, next_due=due, note="")
    )
    if changed.rowcount == 1:
        _record(connection, found, "schedule.changed", {"to": to, "due": due})
    return changed.rowcount == 1


def any_due(connection: Connection) -> bool:
    """Whether anything is due: one look by an index that holds what goes on, and nothing else."""
    return bool(_due(connection, database_now_us(connection), 1))


def due(connection: Connection, now: int, limit: int = 100) -> list[Schedule]:
    """What is due, the first to be due first. What belongs to somebody closed waits until they are open again."""
    return [read(row) for row in _due(connection, now, limit)]


_OWN = principals.principal.alias("own")
_ROOT = principals.principal.alias("root")


def _due(connection: Connection, now: int, limit: int) -> list[Any]:
    return list(
        connection.execute(
            select(schedule)
            .join(_OWN, _OWN.c.id == schedule.c.principal)
            .join(_ROOT, _ROOT.c.id == func.coalesce(_OWN.c.merged_into, _OWN.c.id))
            .where(DUE, schedule.c.next_due <= now, ~_ROOT.c.closed)
            .order_by(schedule.c.next_due)
            .limit(limit)
        )
    )


def advance(connection: Connection, found: Schedule, last: int, following: int | None, note: str) -> bool:
    """Move on from what was due, to ``following`` or to the end; False: another was quicker."""
    changed = connection.execute(
        update(schedule)
        .where(schedule.c.id == found.id, DUE, schedule.c.next_due == found.next_due)
        .values(next_due=following, last_due=last, status="active" if following else "done", note=note)
    )
    return changed.rowcount == 1


def said(connection: Connection, found: Schedule, row: UUID) -> None:
    """It was said: by this inbox row."""
    connection.execute(
        update(schedule).where(schedule.c.id == found.id).values(last_row=row, runs=schedule.c.runs + 1, note="")
    )


def count(connection: Connection, owner: UUID) -> int:
    """How many of a principal's go on or rest."""
    mine = (schedule.c.principal.in_(principals.scope(connection, owner)), schedule.c.status != "done")
    return int(connection.execute(select(func.count()).select_from(schedule).where(*mine)).scalar_one())


def of(connection: Connection, owner: UUID, limit: int = 200) -> list[Schedule]:
    """A principal's schedules, those of whoever was merged into it too; what is over comes last, the newest first."""
    mine = schedule.c.principal.in_(principals.scope(connection, owner))
    order = (
        schedule.c.status == "done",
        schedule.c.next_due.is_(None),
        schedule.c.next_due,
        schedule.c.last_due.desc(),
    )
    return [read(row) for row in connection.execute(select(schedule).where(mine).order_by(*order).limit(limit))]


def all_of_them(connection: Connection, limit: int = 1000) -> list[Schedule]:
    """Everybody's that go on or rest, what is due first at the beginning."""
    going = select(schedule).where(schedule.c.status != "done")
    order = (schedule.c.next_due.is_(None), schedule.c.next_due)
    return [read(row) for row in connection.execute(going.order_by(*order).limit(limit))]


def by_code(connection: Connection, code: str) -> Schedule | None:
    """Anybody's, by its code as it was typed: for the one who runs this machine."""
    row = connection.execute(select(schedule).where(schedule.c.code == _plain(code))).one_or_none()
    return None if row is None else read(row)


def find(connection: Connection, owner: UUID, code: str) -> Schedule | None:
    """One of a principal's schedules by its code, as it was typed."""
    found = by_code(connection, code)
    return found if found is not None and found.principal in principals.scope(connection, owner) else None


def _plain(code: str) -> str:
    return "".join(filter(str.isalnum, code)).upper()


def get(connection: Connection, identifier: UUID) -> Schedule:
    """A schedule that is there."""
    return read(connection.execute(select(schedule).where(schedule.c.id == identifier)).one())


def fresh_code(connection: Connection) -> str:
    """A code that no schedule has."""
    while True:
        code = short_codes.random(CODE_CHARACTERS)
        if connection.execute(select(schedule.c.id).where(schedule.c.code == code)).first() is None:
            return code


def root(connection: Connection, owner: UUID) -> UUID:
    """Whose a principal's things are now."""
    merged = connection.execute(select(_OWN.c.merged_into).where(_OWN.c.id == owner)).scalar()
    return owner if merged is None else UUID(str(merged))


def _record(
    connection: Connection, found: Schedule, kind: str, more: Mapping[str, Any], turn: UUID | None = None
) -> None:
    body = {"schedule": found.id.hex, "code": found.code, **more}
    journal.append(connection, root(connection, found.principal), [Event(kind, body)], under=None, turn=turn)


def read(row: Any) -> Schedule:
    """A row as a schedule."""
    same = ("id", "code", "principal", "user", "text", "missed", "to_last", "external_id", "status", "next_due",
            "last_due", "last_row", "created_at", "runs", "note")  # fmt: skip
    return Schedule(
        **{name: getattr(row, name) for name in same},
        when=Recurrence(row.kind, row.spec, row.zone, row.anchor),
        place=Place(Address(row.channel, row.account, row.conversation, row.thread), json.loads(row.reply)),
    )
