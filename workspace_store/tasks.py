"""Tasks: goals that last over turns, each with a plan and a check.

``claimed`` is what the agent says; ``verified`` is what the runtime found, and only the runtime writes it. A background
task of a sandbox is something else: a process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, Text, bindparam, func, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store import commitments
from workspace_store.database import now_us, storable, table, to_json

State = Literal["open", "claimed", "failed", "verified", "accepted", "dropped"]
StepState = Literal["todo", "doing", "done", "dropped"]
CLOSED: tuple[State, ...] = ("verified", "accepted", "dropped")


class TaskRow(SQLModel, table=True):
    """``number`` is what people call it by, counted for each principal. ``plan``: JSON of its steps.

    ``failures``: failed checks in a row since somebody last said something about it; ``report``: what the last said.
    """

    __tablename__ = "task"
    __table_args__ = (
        Index("task_key", "key", unique=True),
        Index("task_number", "principal", "number", unique=True),
        Index("task_open", "principal", "number", sqlite_where=text("closed_at IS NULL"),
              postgresql_where=text("closed_at IS NULL")),
    )  # fmt: skip

    id: UUID = Field(primary_key=True)
    key: str
    principal: UUID
    number: int
    goal: str = Field(sa_column=Column(Text, nullable=False))
    plan: str = Field(sa_column=Column(Text, nullable=False))
    check_command: str = Field(sa_column=Column(Text, nullable=False))
    state: str
    evidence: str = Field(sa_column=Column(Text, nullable=False))
    claims: int
    failures: int
    report: str = Field(sa_column=Column(Text, nullable=False))
    turn: UUID | None = None
    opened_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    changed_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    closed_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


task = table(TaskRow)


@dataclass(frozen=True)
class PlanStep:
    text: str
    state: StepState = "todo"


@dataclass(frozen=True)
class Task:
    """``check``: the command that proves it; empty: the evidence of a claim is judged."""

    id: UUID
    principal: UUID
    number: int
    goal: str
    plan: tuple[PlanStep, ...]
    check: str
    state: State
    evidence: str
    claims: int
    failures: int
    report: str
    turn: UUID | None
    opened_at: int
    changed_at: int
    closed_at: int | None


class NoSuchTask(LookupError):
    """There is no open task of that number; the text says so."""

    def __init__(self, number: int) -> None:
        super().__init__(f"there is no open task {number}")


_OPEN = (
    select(task)
    .where(task.c.principal == bindparam("of"), task.c.closed_at.is_(None))
    .order_by(task.c.number)
    .limit(bindparam("most"))
)
_NEWEST = (
    select(task)
    .where(task.c.principal == bindparam("of"))
    .order_by(task.c.number.desc())
    .limit(bindparam("most"))
)  # fmt: skip


def open_task(
    connection: Connection,
    owner: UUID,
    key: str,
    goal: str,
    *,
    plan: Sequence[PlanStep] = (),
    check: str = "",
    turn: UUID | None = None,
) -> Task:
    """Open a task; the same ``key`` again (a turn that resumed) is the same task."""
    there = connection.execute(select(task).where(task.c.key == key)).one_or_none()
    if there is not None:
        return _read(there)
    now, identifier = now_us(), uuid4()
    row = {
        "id": identifier, "key": key, "principal": owner, "number": _next(connection, owner), "goal": storable(goal),
        "plan": _plan(plan), "check_command": storable(check), "state": "open", "evidence": "", "claims": 0,
        "failures": 0, "report": "", "turn": turn, "opened_at": now, "changed_at": now, "closed_at": None,
    }  # fmt: skip
    connection.execute(task.insert(), row)
    return get(connection, identifier)


def number_for(connection: Connection, owner: UUID, key: str) -> int:
    """The number that a task opened under ``key`` has, or will have."""
    there = connection.execute(select(task.c.number).where(task.c.key == key)).scalar()
    return _next(connection, owner) if there is None else int(there)


def get(connection: Connection, identifier: UUID) -> Task:
    """Raises LookupError."""
    row = connection.execute(select(task).where(task.c.id == identifier)).one_or_none()
    if row is None:
        raise LookupError(f"there is no task {identifier}")
    return _read(row)


def open_tasks(connection: Connection, owner: UUID, limit: int = 200) -> list[Task]:
    """Those that are not closed, oldest first."""
    return [_read(row) for row in connection.execute(_OPEN, {"of": owner, "most": limit})]


def newest(connection: Connection, owner: UUID, limit: int = 20) -> list[Task]:
    """The newest of all, oldest of them first."""
    return [_read(row) for row in connection.execute(_NEWEST, {"of": owner, "most": limit})][::-1]


def numbered(connection: Connection, owner: UUID, number: int) -> Task:
    """An open task by its number. Raises NoSuchTask."""
    row = connection.execute(
        select(task).where(task.c.principal == owner, task.c.number == number, task.c.closed_at.is_(None))
    ).one_or_none()
    if row is None:
        raise NoSuchTask(number)
    return _read(row)


def plan(connection: Connection, identifier: UUID, steps: Sequence[PlanStep]) -> None:
    """Replace a task's plan."""
    _change(connection, identifier, plan=_plan(steps))


def claim(connection: Connection, identifier: UUID, evidence: str) -> None:
    """The agent says that it is done; nothing is closed by that."""
    found = get(connection, identifier)
    if found.closed_at is None:
        again = {"failures": 0} if found.state == "failed" else {}
        _change(
            connection, identifier, state="claimed", evidence=storable(evidence), claims=found.claims + 1, report="",
            **again,
        )  # fmt: skip


def settle(connection: Connection, identifier: UUID, state: State, *, report: str = "", failures: int = 0) -> None:
    """What a check, or a person, made of it."""
    closed = {"closed_at": now_us()} if state in CLOSED else {}
    _change(connection, identifier, state=state, report=storable(report), failures=failures, **closed)


def close(connection: Connection, identifier: UUID, state: State, *, report: str = "") -> None:
    """End a task, and what was promised for it."""
    settle(connection, identifier, state, report=report)
    commitments.end_of_task(connection, identifier, "dropped" if state == "dropped" else "kept")


def move(connection: Connection, owner: UUID, to: UUID) -> list[UUID]:
    """Give somebody's open tasks to another: the two are one person. Their ids."""
    moved = [found.id for found in open_tasks(connection, owner)]
    for identifier in moved:
        _change(connection, identifier, principal=to, number=_next(connection, to))
    return moved


def move_back(connection: Connection, identifiers: Sequence[UUID], to: UUID) -> None:
    """Give back those of them that are still open."""
    for identifier in identifiers:
        found = connection.execute(select(task.c.principal, task.c.closed_at).where(task.c.id == identifier)).one()
        if found.closed_at is None and found.principal != to:
            _change(connection, identifier, principal=to, number=_next(connection, to))


def _next(connection: Connection, owner: UUID) -> int:
    last = connection.execute(select(func.max(task.c.number)).where(task.c.principal == owner)).scalar()
    return (last or 0) + 1


def _change(connection: Connection, identifier: UUID, **values: Any) -> None:
    connection.execute(update(task).where(task.c.id == identifier).values(changed_at=now_us(), **values))


def _plan(steps: Sequence[PlanStep]) -> str:
    return to_json([asdict(step) for step in steps])


def _read(row: Any) -> Task:
    given = {name: getattr(row, name) for name in Task.__dataclass_fields__ if name not in ("plan", "check")}
    steps = tuple(PlanStep(**step) for step in json.loads(row.plan))
    return Task(**given, plan=steps, check=row.check_command)
