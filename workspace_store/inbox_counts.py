"""Counts of a principal's inbox: what came, what has its final status, and up to where /stop was said.

Counts and not a look at the inbox: with a SELECT, PostgreSQL loses what comes between that and the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, bindparam, case, select, update

from workspace_store.database import database_now_us
from workspace_store.principal import Away, Head, not_here, principal
from workspace_store.statements import Prepared, Together

RING_AGAIN_US = 2_000_000
"""How long after a sweeper found a principal it is not looked at again."""
BELL_HEAD_START_US = 1_000_000
"""How long sweepers leave the first message that waits to whom its bell was rung for: it waits in a queue, mostly."""
_DRAINED = Prepared(
    update(principal)
    .where(principal.c.id == bindparam("of"))
    .values(drained_seq=principal.c.drained_seq + bindparam("count"))
)
_RECEIVED = Prepared(
    update(principal)
    .where(principal.c.id == bindparam("of"), ~principal.c.away)
    .values(
        inbox_seq=principal.c.inbox_seq + 1,
        # Of what comes behind it nothing is changed: with mail that never ends, it would never be found.
        rung_at=case(
            (principal.c.drained_seq < principal.c.inbox_seq, principal.c.rung_at),
            # Its own host is rung for it, or looks as others do: it has the sandbox.
            (principal.c.sandbox_host.is_not(None), bindparam("for_its_host")),
            else_=bindparam("for_any_host"),
        ),
    )
    .returning(
        principal.c.inbox_seq,
        principal.c.owner,
        principal.c.sandbox_host,
        principal.c.head_seq,
        principal.c.head_hash,
        principal.c.drained_seq,
    )
)
_STOP_SEQ = Prepared(select(principal.c.stop_seq).where(principal.c.id == bindparam("of")))


def end_drained(together: Together, identifier: UUID, count: int) -> None:
    """``drained``, with what else is written."""
    together.end(_DRAINED, {"of": identifier, "count": count})


def drained(connection: Connection, identifier: UUID, count: int = 1) -> None:
    """Count inbox rows that were given their final status in this transaction (negative: returned)."""
    _DRAINED(connection, {"of": identifier, "count": count})


@dataclass(frozen=True)
class Received:
    """An inbox row that was counted: its seq, who owns the lease now, and the journal's head.

    ``manager``: who keeps its sandbox warm. ``waits``: something that came before is not drained yet.
    """

    seq: int
    owner: str | None
    manager: str | None
    head: Head
    waits: bool


def received(connection: Connection, identifier: UUID) -> tuple[int, str | None]:
    """Count one more inbox row, which also locks the principal's; its seq, and who owns the lease now. Raises Away.

    Maybe nobody rings for it: sweepers find it at once, where no host has a sandbox for it.
    """
    found = _received(connection, identifier, head_start=False)
    return found.seq, found.owner


def received_at(connection: Connection, identifier: UUID) -> Received:
    """The same of a message whose bell is rung, with the journal's head, for what is journaled under this lock."""
    return _received(connection, identifier, head_start=True)


def _received(connection: Connection, identifier: UUID, *, head_start: bool) -> Received:
    as_if_rung = database_now_us(connection) - RING_AGAIN_US + BELL_HEAD_START_US
    given = {"of": identifier, "for_its_host": as_if_rung, "for_any_host": as_if_rung if head_start else 0}
    row = _RECEIVED(connection, given).one_or_none()
    if row is None:
        raise Away(not_here(identifier))
    return Received(
        row.inbox_seq, row.owner, row.sandbox_host, (row.head_seq, row.head_hash), row.inbox_seq - 1 > row.drained_seq
    )


def waiting(connection: Connection, identifier: UUID) -> int:
    """How many inbox rows have no final status yet."""
    row = connection.execute(
        select(principal.c.inbox_seq, principal.c.drained_seq).where(principal.c.id == identifier)
    ).one()
    return int(row.inbox_seq - row.drained_seq)


def stop_seq(connection: Connection, identifier: UUID) -> int:
    """The inbox sequence number up to which the person has said /stop."""
    return int(_STOP_SEQ(connection, {"of": identifier}).scalar_one())


def is_stopped(connection: Connection, identifier: UUID, seq: int) -> bool:
    """Whether /stop was said after the inbox row of this sequence number."""
    return stop_seq(connection, identifier) >= seq


def stop(connection: Connection, identifier: UUID) -> None:
    """Stop what was said up to now."""
    connection.execute(update(principal).where(principal.c.id == identifier).values(stop_seq=principal.c.inbox_seq))
