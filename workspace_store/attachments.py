"""Files that came with messages: what is known of each, from the moment its message is recorded.

``waiting`` (the platform keeps it, or its bytes are on their way) → ``stored`` (a blob of the principal) | ``failed``
(with a reason a person can read). Gateways claim what waits for their channels, as they claim replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Text,
    bindparam,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy import text as sql
from sqlmodel import Field, SQLModel

from workspace_store.database import database_now_us, storable, table

Status = Literal["waiting", "stored", "failed"]

CLAIM_SECONDS = 120
_WAITS = "status = 'waiting'"
_WAITING: ColumnElement[str] = literal_column("'waiting'")


class MessageFile(SQLModel, table=True):
    """One file of one message. ``reference``: the platform's own id of it; ``name`` is safe and its message's only."""

    __tablename__ = "attachment"
    __table_args__ = (
        Index("attachment_waiting", "channel", "next_at", sqlite_where=sql(_WAITS), postgresql_where=sql(_WAITS)),
    )

    inbox: UUID = Field(primary_key=True)
    position: int = Field(primary_key=True)
    principal: UUID
    channel: str
    account: str
    reference: str
    name: str
    content_type: str
    size: int = Field(sa_column=Column(BigInteger, nullable=False))
    status: str
    blob: str | None = None
    reason: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    attempts: int = 0
    first_tried_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    next_at: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    claimed_by: str | None = None
    claim_until: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))


attachment = table(MessageFile)


@dataclass(frozen=True)
class New:
    """A file as its message tells of it. Status ``waiting`` unless there is a ``reason`` why it cannot be had."""

    name: str
    content_type: str
    size: int
    reference: str = ""
    blob: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class File:
    """A file of a message as it is now."""

    inbox: UUID
    position: int
    principal: UUID
    channel: str
    account: str
    reference: str
    name: str
    content_type: str
    size: int
    status: Status
    blob: str | None
    reason: str | None
    attempts: int
    first_tried_at: int | None


_COLUMNS = [attachment.c[name] for name in File.__dataclass_fields__]
_INSERT = attachment.insert()
_DUE = (
    attachment.c.status == _WAITING,
    attachment.c.channel.in_(bindparam("channels", expanding=True)),
    attachment.c.next_at <= bindparam("now"),
    or_(
        attachment.c.claimed_by.is_(None),
        attachment.c.claim_until < bindparam("now"),
        attachment.c.claimed_by.in_(bindparam("dead", expanding=True)),
    ),
)
_CLAIMABLE = (
    select(*_COLUMNS).where(*_DUE).order_by(attachment.c.next_at).limit(bindparam("most")).with_for_update(
        skip_locked=True
    )
)  # fmt: skip
_ANY_WAITING = (
    select(attachment.c.inbox)
    .where(attachment.c.status == _WAITING, attachment.c.channel.in_(bindparam("channels", expanding=True)))
    .limit(1)
)


def insert(
    connection: Connection, message: UUID, principal: UUID, channel: str, account: str, files: Sequence[New]
) -> None:
    """Record the files of a message, in its order."""
    rows = [
        {
            "inbox": message, "position": position, "principal": principal, "channel": channel, "account": account,
            "reference": file.reference, "name": file.name, "content_type": file.content_type, "size": file.size,
            "status": "failed" if file.reason else "waiting", "blob": file.blob, "reason": file.reason, "attempts": 0,
            "next_at": 0, "claim_until": 0,
        }
        for position, file in enumerate(files)
    ]  # fmt: skip
    connection.execute(_INSERT, rows)


def of(connection: Connection, messages: Sequence[UUID]) -> list[File]:
    """The files of messages, each message's in order."""
    rows = connection.execute(
        select(*_COLUMNS).where(attachment.c.inbox.in_(messages)).order_by(attachment.c.inbox, attachment.c.position)
    )
    return [File(**row._mapping) for row in rows]


def stored(connection: Connection, message: UUID, blobs: Sequence[str]) -> None:
    """The bytes of these blobs, which its message named, are kept now."""
    connection.execute(
        update(attachment)
        .where(attachment.c.inbox == message, attachment.c.status == _WAITING, attachment.c.blob.in_(blobs))
        .values(status="stored")
    )


def give_up(connection: Connection, messages: Sequence[UUID], reason: str) -> None:
    """What still waits is waited for no longer."""
    connection.execute(
        update(attachment)
        .where(attachment.c.inbox.in_(messages), attachment.c.status == _WAITING)
        .values(status="failed", reason=storable(reason))
    )


# For who fetches


def any_waiting(connection: Connection, channels: list[str]) -> bool:
    """Whether a round of claiming may find anything: a look that takes no lock."""
    return connection.execute(_ANY_WAITING, {"channels": channels}).first() is not None


def claimers(connection: Connection) -> list[str]:
    """Who has claimed what is being fetched."""
    rows = connection.execute(
        select(attachment.c.claimed_by)
        .where(attachment.c.status == _WAITING, attachment.c.claimed_by.is_not(None))
        .distinct()
    )
    return [row.claimed_by for row in rows]


def claim(connection: Connection, channels: list[str], claimer: str, dead: list[str], limit: int) -> list[File]:
    """Claim files that are due: under no claim, an ended one, or that of a dead claimer."""
    now = database_now_us(connection)
    given = {"channels": channels, "now": now, "dead": dead, "most": limit}
    rows = connection.execute(_CLAIMABLE, given).all()
    found = [File(**{**row._mapping, "first_tried_at": row.first_tried_at or now}) for row in rows]
    for file in found:
        connection.execute(
            update(attachment)
            .where(attachment.c.inbox == file.inbox, attachment.c.position == file.position)
            .values(
                claimed_by=claimer,
                claim_until=now + CLAIM_SECONDS * 1_000_000,
                attempts=file.attempts + 1,
                first_tried_at=file.first_tried_at,
            )
        )
    return found


def settle(connection: Connection, file: File, claimer: str, **values: object) -> bool:
    """Record what became of a claimed file; False where the claim had gone, or nobody waits for it any more."""
    changed = connection.execute(
        update(attachment)
        .where(
            attachment.c.inbox == file.inbox,
            attachment.c.position == file.position,
            attachment.c.status == _WAITING,
            attachment.c.claimed_by == claimer,
        )
        .values(claimed_by=None, claim_until=0, **values)
    )
    return changed.rowcount == 1
