"""Strangers who wait for an admin: a proven stranger gets a short code, and nothing else of theirs is kept.

At most ``PER_CHANNEL`` wait at a channel and ``IN_ALL`` everywhere, for an hour each; whoever comes beyond is met with
silence. The code is no secret: only an admin can do anything with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Index, Text, bindparam, delete, func, select, update
from sqlmodel import Field, SQLModel

from identity import codes, users
from identity.users import GUEST, Claim, User
from workspace_store import outbox
from workspace_store.database import now_us, table

PER_CHANNEL = 3
IN_ALL = 20
WAIT_SECONDS = 3600


class PairingRow(SQLModel, table=True):
    """A stranger: who they are by their channel's word, and where they are answered."""

    __tablename__ = "pairing"
    __table_args__ = (
        Index("pairing_of", "channel", "account", "external_id", unique=True),
        Index("pairing_ends", "expires_at"),
    )

    code: str = Field(primary_key=True)
    channel: str
    account: str
    external_id: str
    display: str
    proof: str
    conversation: str
    thread: str
    reply: str = Field(sa_column=Column(Text, nullable=False))
    asked_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    expires_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    refused: bool = False


pairing = table(PairingRow)


@dataclass(frozen=True)
class Waiting:
    """A stranger who waits. ``conversation``, ``thread`` and ``reply`` (JSON) say where to answer them."""

    code: str
    claim: Claim
    conversation: str
    thread: str
    reply: str
    asked_at: int
    expires_at: int


_BY_CLAIM = select(pairing.c.code).where(
    pairing.c.channel == bindparam("at"), pairing.c.account == bindparam("by"), pairing.c.external_id == bindparam("of")
)
_COUNTS = select(pairing.c.channel, func.count().label("waiting")).where(~pairing.c.refused).group_by(pairing.c.channel)
_OVER = select(pairing.c.code).where(pairing.c.expires_at <= bindparam("now"))
_STANDS = (~pairing.c.refused, pairing.c.expires_at > bindparam("now"))
_WAITING = select(pairing).where(*_STANDS).order_by(pairing.c.expires_at)
_BY_CODE = select(pairing).where(pairing.c.code == bindparam("of"), *_STANDS)


def knock(connection: Connection, claim: Claim, conversation: str, thread: str, reply: str) -> Waiting | None:
    """Let a proven stranger wait; None where they wait already, or no place is free: silence."""
    now = now_us()
    for row in connection.execute(_OVER, {"now": now}).all():
        end(connection, row.code)
    if connection.execute(_BY_CLAIM, {"at": claim.channel, "by": claim.account, "of": claim.external_id}).first():
        return None
    counts: dict[str, int] = {row.channel: row.waiting for row in connection.execute(_COUNTS)}
    if counts.get(claim.channel, 0) >= PER_CHANNEL or sum(counts.values()) >= IN_ALL:
        return None
    waiting = Waiting(
        codes.make(codes.PAIRING_CHARACTERS), claim, conversation, thread, reply, now, now + WAIT_SECONDS * 1_000_000
    )
    connection.execute(
        pairing.insert().values(
            code=waiting.code, channel=claim.channel, account=claim.account, external_id=claim.external_id,
            display=claim.display, proof=claim.proof, conversation=conversation, thread=thread, reply=reply,
            asked_at=now, expires_at=waiting.expires_at,
            refused=False,
        )
    )  # fmt: skip
    return waiting


def waiting(connection: Connection) -> list[Waiting]:
    """Who waits now, the first to come first."""
    return [_waiting(row) for row in connection.execute(_WAITING, {"now": now_us()})]


def find(connection: Connection, code: str) -> Waiting | None:
    """Who waits under a code, as it was typed."""
    row = connection.execute(_BY_CODE, {"of": codes.typed(code), "now": now_us()}).one_or_none()
    return None if row is None else _waiting(row)


def approve(connection: Connection, found: Waiting, actor: UUID | None, role: str = "member") -> User:
    """Let a stranger in, as a user of their own."""
    end(connection, found.code)
    there = users.by_identity(connection, found.claim)
    if there is not None:
        if there.role == GUEST:
            users.set_role(connection, there.id, role, actor)
        return users.get(connection, there.id) or there
    user = users.create(connection, found.claim, role)
    users.record(connection, actor, user.id, "pairing.approved", {"channel": found.claim.channel})
    return user


def refuse(connection: Connection, found: Waiting, actor: UUID | None) -> None:
    """Send a stranger away; for the rest of the hour they are met with silence."""
    connection.execute(update(pairing).where(pairing.c.code == found.code).values(refused=True))
    users.record(connection, actor, None, "pairing.refused", {"channel": found.claim.channel})


def end(connection: Connection, code: str) -> None:
    """Forget a stranger, and what was said to them."""
    connection.execute(delete(pairing).where(pairing.c.code == code))
    outbox.discard(connection, key(code))


def key(code: str) -> str:
    """The outbox key of what a stranger is told."""
    return f"pairing:{code}"


def forget(connection: Connection, claim: Claim) -> None:
    """Whoever has come in another way waits no more."""
    given = {"at": claim.channel, "by": claim.account, "of": claim.external_id}
    for row in connection.execute(_BY_CLAIM, given).all():
        end(connection, row.code)


def _waiting(row: Any) -> Waiting:
    claim = Claim(row.channel, row.account, row.external_id, row.display, row.proof)
    return Waiting(row.code, claim, row.conversation, row.thread, row.reply, row.asked_at, row.expires_at)
