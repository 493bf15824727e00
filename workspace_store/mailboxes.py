"""Mailboxes that mail is fetched from, and how far each was read.

The place goes by UIDVALIDITY and UID (RFC 3501, 2.3.1.1): what somebody else has read is still fetched, and nothing is
fetched twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, Connection, bindparam, select, update
from sqlmodel import Field, SQLModel

from workspace_store.database import table


class MailboxRow(SQLModel, table=True):
    """``name``: user, host and folder. Everything up to ``uid`` under ``uid_validity`` was dealt with."""

    __tablename__ = "mailbox"

    name: str = Field(primary_key=True)
    uid_validity: int = Field(sa_column=Column(BigInteger, nullable=False))
    uid: int = Field(sa_column=Column(BigInteger, nullable=False))


mailbox = table(MailboxRow)


@dataclass(frozen=True)
class Place:
    """How far a mailbox was read; ``uid_validity`` None: it never was."""

    uid_validity: int | None
    uid: int


_PLACE = select(mailbox.c.uid_validity, mailbox.c.uid).where(mailbox.c.name == bindparam("of"))


def place_in(connection: Connection, name: str) -> Place:
    """How far the mailbox was read."""
    row = connection.execute(_PLACE, {"of": name}).one_or_none()
    return Place(None, 0) if row is None else Place(row.uid_validity, row.uid)


def move(connection: Connection, name: str, place: Place) -> None:
    """Record how far the mailbox was read. IntegrityError where another one did first, at the same moment."""
    values = {"uid_validity": place.uid_validity, "uid": place.uid}
    if connection.execute(update(mailbox).where(mailbox.c.name == name).values(**values)).rowcount == 0:
        connection.execute(mailbox.insert().values(name=name, **values))
