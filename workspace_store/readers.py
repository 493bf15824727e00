"""Readers: of what may have only one at a time (a bot's updates), the gateway that reads it now.

The right lasts while its holder renews it; a holder that is known to be dead holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import BigInteger, Column, Connection, bindparam, select, update
from sqlmodel import Field, SQLModel

from workspace_store.database import database_now_us, table

LEASE_SECONDS = 10


class ReaderRow(SQLModel, table=True):
    """``name``: what is read. ``until``: microseconds, by the database's clock."""

    __tablename__ = "reader"

    name: str = Field(primary_key=True)
    holder: str | None = None
    until: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))


reader = table(ReaderRow)

_THERE = select(reader.c.holder, reader.c.until).where(reader.c.name == bindparam("of"))


def hold(connection: Connection, name: str, holder: str, is_dead: Callable[[str], bool]) -> bool:
    """Take or renew the right to read ``name``; False while another holds it.

    IntegrityError where another one took it first, at the same moment; try again then.
    """
    now = database_now_us(connection)
    until = now + LEASE_SECONDS * 1_000_000
    there = connection.execute(_THERE, {"of": name}).one_or_none()
    if there is None:
        connection.execute(reader.insert().values(name=name, holder=holder, until=until))
        return True
    ours = there.holder in (None, holder) or there.until < now or is_dead(there.holder)
    if not ours:
        return False
    same = (reader.c.name == name, reader.c.holder.is_not_distinct_from(there.holder), reader.c.until == there.until)
    return connection.execute(update(reader).where(*same).values(holder=holder, until=until)).rowcount == 1


def leave(connection: Connection, name: str, holder: str) -> None:
    """Give the right back (a clean stop)."""
    mine = (reader.c.name == name, reader.c.holder == holder)
    connection.execute(update(reader).where(*mine).values(holder=None, until=0))
