"""The effect ledger: what turns did to the world outside their volume, each known by digest, for good.

An effect that may change something is written as ``intended`` before it goes out and ``settled`` after; one whose end
nobody saw is ``uncertain``, and is told. ``refused`` never went out. Contents and secrets are never stored here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Index, Integer, bindparam, func, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store import journal
from workspace_store.database import now_us, table
from workspace_store.journal import Event

TOOLS = "tools"
"""In the place of an egress process: a tool that acts outside by itself; ``host`` is its name."""

Status = Literal["intended", "settled", "uncertain", "refused"]

# Literals, not parameters: SQLite uses a partial index only for the words it was made with.
INTENDED_WORDS, UNTOLD_WORDS = "status = 'intended'", "NOT told"


class EffectRow(SQLModel, table=True):
    """One request, one tunnel (``method`` CONNECT), or one call of a tool. ``proxy``: the egress process that saw it.

    ``path_digest`` and ``request_digest`` are hex SHA-256; ``outcome`` is the server's status; bytes are those of
    bodies and tunnels; ``told``: there is nothing about it that a person has still to hear.
    """

    __tablename__ = "effect"
    __table_args__ = (
        Index("effect_of", "principal", "number"),
        Index("effect_turn", "turn", "number"),
        Index("effect_intended", "proxy", sqlite_where=text(INTENDED_WORDS), postgresql_where=text(INTENDED_WORDS)),
        Index("effect_untold", "principal", sqlite_where=text(UNTOLD_WORDS), postgresql_where=text(UNTOLD_WORDS)),
    )

    number: int | None = Field(
        default=None,
        # SQLite counts up only a column declared INTEGER.
        sa_column=Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    )
    id: UUID = Field(unique=True)
    principal: UUID
    sandbox_epoch: int = Field(sa_column=Column(BigInteger, nullable=False))
    turn: UUID | None = None
    proxy: str
    host: str
    port: int
    method: str
    path_digest: str
    request_digest: str
    status: str
    outcome: int | None = None
    reason: str = ""
    bytes_out: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    bytes_in: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    settled_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    told: bool = True


class EgressUsage(SQLModel, table=True):
    """Requests and bytes of a principal on one day (UTC, ``YYYY-MM-DD``), against its budgets."""

    __tablename__ = "egress_usage"

    principal: UUID = Field(primary_key=True)
    day: str = Field(primary_key=True)
    requests: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    bytes: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))


effect = table(EffectRow)
usage = table(EgressUsage)


@dataclass(frozen=True)
class Effect:
    """A row as it is written and read."""

    id: UUID
    principal: UUID
    sandbox_epoch: int
    turn: UUID | None
    proxy: str
    host: str
    port: int
    method: str
    path_digest: str
    request_digest: str
    status: Status
    at: int
    outcome: int | None = None
    reason: str = ""
    bytes_out: int = 0
    bytes_in: int = 0
    settled_at: int | None = None
    told: bool = True


@dataclass(frozen=True)
class Settled:
    """How an effect ended."""

    id: UUID
    status: Status
    outcome: int | None
    reason: str
    bytes_out: int
    bytes_in: int
    request_digest: str
    settled_at: int


_COLUMNS = [effect.c[name] for name in Effect.__dataclass_fields__]
_INSERT = effect.insert()
_OF = select(*_COLUMNS).where(effect.c.principal == bindparam("owner")).order_by(effect.c.number.desc())
_RECENT = _OF.limit(bindparam("most"))
_UNTOLD = (
    select(*_COLUMNS)
    .where(effect.c.principal == bindparam("owner"), text(UNTOLD_WORDS))
    .order_by(effect.c.number)
    .limit(bindparam("most"))
)
_OF_TURN = select(*_COLUMNS).where(effect.c.turn == bindparam("of")).order_by(effect.c.number).limit(bindparam("most"))
_SETTLE = (
    update(effect)
    # What was given up as uncertain meanwhile stays so: it has been told.
    .where(effect.c.id == bindparam("of"), effect.c.status == "intended")
    .values(
        status=bindparam("to_status"), outcome=bindparam("to_outcome"), reason=bindparam("to_reason"),
        bytes_out=bindparam("out"), bytes_in=bindparam("into"), request_digest=bindparam("digest"),
        settled_at=bindparam("ended"), told=bindparam("is_told"),
    )
)  # fmt: skip
_USED = select(usage.c.requests, usage.c.bytes).where(
    usage.c.principal == bindparam("owner"), usage.c.day == bindparam("on")
)
_USE = (
    update(usage)
    .where(usage.c.principal == bindparam("owner"), usage.c.day == bindparam("on"))
    .values(requests=usage.c.requests + bindparam("more_requests"), bytes=usage.c.bytes + bindparam("more_bytes"))
)


def write(connection: Connection, effects: Iterable[Effect]) -> None:
    """Insert rows, whatever their status; an id that is there already is an IntegrityError."""
    rows = [asdict(each) for each in effects]
    if rows:
        connection.execute(_INSERT, rows)


def settle(connection: Connection, ended: Settled) -> bool:
    """Say how an intended effect ended; False: it was not waiting for that."""
    changed = connection.execute(
        _SETTLE,
        {
            "of": ended.id, "to_status": ended.status, "to_outcome": ended.outcome, "to_reason": ended.reason,
            "out": ended.bytes_out, "into": ended.bytes_in, "digest": ended.request_digest,
            "ended": ended.settled_at, "is_told": ended.status != "uncertain",
        },
    )  # fmt: skip
    return changed.rowcount == 1


def give_up(connection: Connection, row: Effect, reason: str) -> None:
    """Nobody will see how an intended effect ended: the ledger says so, and the journal. One that was settled stays."""
    ended = Settled(row.id, "uncertain", None, reason, row.bytes_out, row.bytes_in, row.request_digest, now_us())
    if settle(connection, ended):
        body = {
            "effect": row.id.hex, "host": row.host, "port": row.port, "method": row.method, "status": "uncertain",
            "outcome": None, "reason": reason, "request_digest": row.request_digest,
        }  # fmt: skip
        journal.append(connection, row.principal, [Event("effect.settled", body)], under=None, turn=row.turn)


def unfinished(connection: Connection, *, but_of: str, proxies: str) -> list[Effect]:
    """Intended effects of egress processes whose id begins with ``proxies``, except those of ``but_of``."""
    rows = connection.execute(
        select(*_COLUMNS).where(
            text(INTENDED_WORDS), effect.c.proxy.startswith(proxies, autoescape=True), effect.c.proxy != but_of
        )
    )
    return _effects(rows)


def unfinished_before(connection: Connection, owner: UUID, epoch: int) -> list[Effect]:
    """Intended effects of a principal's earlier sandboxes: whoever saw them no longer has the tenancy."""
    rows = connection.execute(
        select(*_COLUMNS).where(
            text(INTENDED_WORDS), effect.c.principal == owner, effect.c.proxy != TOOLS, effect.c.sandbox_epoch < epoch
        )
    )  # fmt: skip
    return _effects(rows)


def unfinished_of(connection: Connection, owner: UUID) -> list[Effect]:
    """All intended effects of a principal, in order."""
    mine = (effect.c.principal == owner, text(INTENDED_WORDS))
    return _effects(connection.execute(select(*_COLUMNS).where(*mine).order_by(effect.c.number)))


def recent(connection: Connection, owner: UUID, limit: int) -> list[Effect]:
    """The newest effects, newest first."""
    return _effects(connection.execute(_RECENT, {"owner": owner, "most": limit}))


def of_turn(connection: Connection, turn: UUID, limit: int = 200) -> list[Effect]:
    """What a turn did outside, in order."""
    return _effects(connection.execute(_OF_TURN, {"of": turn, "most": limit}))


def untold(connection: Connection, owner: UUID, limit: int = 50) -> list[Effect]:
    """Refused and uncertain effects that nobody has been told of yet, in order."""
    return _effects(connection.execute(_UNTOLD, {"owner": owner, "most": limit}))


def tell(connection: Connection, identifiers: Sequence[UUID]) -> None:
    """Remember that these were told."""
    if identifiers:
        connection.execute(update(effect).where(effect.c.id.in_(identifiers)).values(told=True))


def tell_refused(connection: Connection, owner: UUID, host: str) -> None:
    """A person has spoken of this host: what was refused of it needs no more telling."""
    mine = (effect.c.principal == owner, text(UNTOLD_WORDS), effect.c.host == host, effect.c.status == "refused")
    connection.execute(update(effect).where(*mine).values(told=True))


def count(connection: Connection, owner: UUID) -> dict[str, int]:
    """How many effects of each status."""
    rows = connection.execute(
        select(effect.c.status, func.count()).where(effect.c.principal == owner).group_by(effect.c.status)
    )
    return {str(row[0]): int(row[1]) for row in rows}


def used(connection: Connection, owner: UUID, day: str) -> tuple[int, int]:
    """(requests, bytes) of a day so far."""
    row = connection.execute(_USED, {"owner": owner, "on": day}).one_or_none()
    return (0, 0) if row is None else (int(row.requests), int(row.bytes))


def use(connection: Connection, owner: UUID, day: str, requests: int, count: int) -> None:
    """Count requests and bytes of a day."""
    given = {"owner": owner, "on": day, "more_requests": requests, "more_bytes": count}
    if connection.execute(_USE, given).rowcount == 0:
        connection.execute(usage.insert(), {"principal": owner, "day": day, "requests": requests, "bytes": count})


def figures(connection: Connection, day: str, since: int) -> dict[str, int]:
    """Of everybody: ``requests`` and ``bytes`` of a day, and how many were ``refused`` since, of the newest 10,000."""
    sums = select(func.coalesce(func.sum(usage.c.requests), 0), func.coalesce(func.sum(usage.c.bytes), 0))
    requests, size = connection.execute(sums.where(usage.c.day == day)).one()
    newest = connection.execute(select(func.max(effect.c.number))).scalar() or 0
    refused = connection.execute(
        select(func.count()).where(
            effect.c.number > newest - 10_000, effect.c.status == "refused", effect.c.at >= since
        )
    ).scalar_one()  # fmt: skip
    return {"requests": int(requests), "bytes": int(size), "refused": int(refused)}


def _effects(rows: Iterable[object]) -> list[Effect]:
    return [Effect(**row._mapping) for row in rows]  # type: ignore[attr-defined]
