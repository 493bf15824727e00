"""Timers of sandboxes: the lines of a principal's crontab, and when each is due next.

The crontab itself is a file of the sandbox; here is what any sandbox manager needs to run a line on time, once, also
where the sandbox sleeps: whoever moves a row on runs it, and a row is moved on before it is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, Text, delete, select, update
from sqlmodel import Field, SQLModel

from workspace_store.database import database_now_us, table, to_json
from workspace_store.principal import principal as principals
from workspace_store.recurrence import Recurrence
from workspace_store.tenancy import Tenancy, fence


class TimerRow(SQLModel, table=True):
    """``environment``: JSON, what the crontab sets for this line. Times in microseconds."""

    __tablename__ = "timer"
    __table_args__ = (Index("timer_due", "next_due"), Index("timer_of", "principal"))

    id: UUID = Field(primary_key=True)
    principal: UUID = Field(foreign_key="principal.id")
    spec: str
    zone: str
    command: str = Field(sa_column=Column(Text, nullable=False))
    environment: str = Field(sa_column=Column(Text, nullable=False))
    next_due: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    last_due: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


timer = table(TimerRow)


@dataclass(frozen=True)
class Line:
    """One line of a crontab: when, what, and in which environment beside the sandbox's own."""

    when: Recurrence
    command: str
    environment: Mapping[str, str]

    @property
    def _key(self) -> tuple[str, str, str, str]:
        return self.when.spec, self.when.zone, self.command, to_json(dict(self.environment))


@dataclass(frozen=True)
class Timer:
    id: UUID
    principal: UUID
    line: Line
    next_due: int


def replace(connection: Connection, held: Tenancy, lines: Sequence[Line]) -> None:
    """A principal's crontab is this one from now on; a line that it had before keeps its time. Raises StaleTenancy."""
    fence(connection, held)
    now = database_now_us(connection)
    rows = connection.execute(select(timer).where(timer.c.principal == held.principal)).all()
    there = {(row.spec, row.zone, row.command, row.environment): row.id for row in rows}
    wanted = {line._key: line for line in lines}
    gone = [identifier for key, identifier in there.items() if key not in wanted]
    connection.execute(delete(timer).where(timer.c.id.in_(gone)))
    for key, line in wanted.items():
        if key not in there:
            spec, zone, command, environment = key
            connection.execute(
                timer.insert().values(
                    id=uuid4(), principal=held.principal, spec=spec, zone=zone, command=command,
                    environment=environment, next_due=line.when.after(now),
                )
            )  # fmt: skip


def due(connection: Connection, limit: int = 50) -> list[Timer]:
    """What is due, the first to be due first; of nobody who is closed, or was merged into somebody else."""
    now = database_now_us(connection)
    rows = connection.execute(
        select(timer)
        .join(principals, principals.c.id == timer.c.principal)
        .where(timer.c.next_due <= now, ~principals.c.closed, principals.c.merged_into.is_(None))
        .order_by(timer.c.next_due)
        .limit(limit)
    )
    return [read(row) for row in rows]


def claim(connection: Connection, found: Timer) -> int | None:
    """Move it on, and be the one to run it: how often it was due by now. None: another was quicker."""
    now = database_now_us(connection)
    times, last = found.line.when.between(found.next_due, now)
    changed = connection.execute(
        update(timer)
        .where(timer.c.id == found.id, timer.c.next_due == found.next_due)
        .values(next_due=found.line.when.after(now), last_due=last)
    )
    return times if changed.rowcount == 1 else None


def postpone(connection: Connection, found: Timer, seconds: float) -> None:
    """It was claimed and has provably not begun: it is due again soon."""
    soon = database_now_us(connection) + int(seconds * 1e6)
    connection.execute(
        update(timer).where(timer.c.id == found.id, (timer.c.next_due > soon) | timer.c.next_due.is_(None))
        .values(next_due=soon)
    )  # fmt: skip


def of(connection: Connection, owner: UUID) -> list[Timer]:
    """A principal's timers that are due again, the next one first."""
    mine = timer.c.principal == owner
    rows = connection.execute(select(timer).where(mine, timer.c.next_due.is_not(None)).order_by(timer.c.next_due))
    return [read(row) for row in rows]


def read(row: object) -> Timer:
    """A row as a timer."""
    found = row._mapping  # type: ignore[attr-defined]
    line = Line(Recurrence("cron", found["spec"], found["zone"]), found["command"], json.loads(found["environment"]))
    return Timer(found["id"], found["principal"], line, found["next_due"])
