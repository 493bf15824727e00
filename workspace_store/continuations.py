"""Where a person went on with a thread elsewhere: what was under way there is answered where they are now.

One row a principal, the newest wins. Whoever writes again in the old thread is answered there again; whoever writes at
a third place since, there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Text, bindparam, delete, select
from sqlmodel import Field, SQLModel

from workspace_store import inbox
from workspace_store.database import table, to_json
from workspace_store.inbox import Row
from workspace_store.outbox import Address
from workspace_store.statements import Prepared


class ContinuationRow(SQLModel, table=True):
    """``seq``: the inbox row that asked for it. ``left`` and ``place``: JSON of the addresses it leads from and to."""

    __tablename__ = "continuation"

    principal: UUID = Field(primary_key=True, foreign_key="principal.id")
    seq: int = Field(sa_column=Column(BigInteger, nullable=False))
    left: str = Field(sa_column=Column(Text, nullable=False))
    place: str = Field(sa_column=Column(Text, nullable=False))


continuation = table(ContinuationRow)
_FIND = Prepared(select(continuation).where(continuation.c.principal == bindparam("of")))


@dataclass(frozen=True)
class Elsewhere:
    """Where an answer goes instead, and what its channel wants back with it."""

    to: Address
    reply: dict[str, Any]


def write(connection: Connection, owner: UUID, seq: int, left: Address, place: Address) -> None:
    """From the inbox row ``seq`` on, what was said in ``left`` before is answered at ``place``."""
    end(connection, owner)
    row = {"principal": owner, "seq": seq, "left": to_json(asdict(left)), "place": to_json(asdict(place))}
    connection.execute(continuation.insert(), row)


def elsewhere(connection: Connection, row: Row) -> Elsewhere | None:
    """Where the answer to an inbox row goes, if its sender has gone on somewhere else since."""
    found = _FIND(connection, {"of": row.principal}).one_or_none()
    said_in = Address(row.channel, row.account, row.conversation, row.thread)
    if found is None or row.seq >= found.seq or Address(**json.loads(found.left)) != said_in:
        return None
    newest = inbox.newest_said(connection, row.principal)
    if newest is None or newest.seq <= found.seq:
        return Elsewhere(Address(**json.loads(found.place)), {})
    place = Address(newest.channel, newest.account, newest.conversation, newest.thread)
    return None if place == said_in else Elsewhere(place, inbox.reply_later(newest))


def end(connection: Connection, owner: UUID) -> None:
    """What is under way is answered where it was said."""
    connection.execute(delete(continuation).where(continuation.c.principal == owner))
