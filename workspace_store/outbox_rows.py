"""What a reply is as a row of the outbox; ``workspace_store.outbox`` queues, claims and settles them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, ColumnElement, Index, Integer, Text, literal_column, text
from sqlmodel import Field, SQLModel

from workspace_store.database import table

# Literals, not parameters: SQLite uses a partial index only for the words it was made with.
OPEN_WORDS = "status IN ('queued', 'sending')"
MAIL_WORDS = "channel = 'email' AND external_id IS NOT NULL"
OPEN: tuple[ColumnElement[str], ...] = (literal_column("'queued'"), literal_column("'sending'"))
DEAD: ColumnElement[str] = literal_column("'dead'")


class OutboxReply(SQLModel, table=True):
    """A reply: (``draft`` →) ``queued`` → ``sending`` → ``sent`` | ``dead``. ``content`` is JSON of ``Content``."""

    __tablename__ = "outbox"
    __table_args__ = (
        Index("outbox_open", "channel", "number", sqlite_where=text(OPEN_WORDS), postgresql_where=text(OPEN_WORDS)),
        Index("outbox_strand", "channel", "account", "conversation", "number", sqlite_where=text(OPEN_WORDS),
              postgresql_where=text(OPEN_WORDS)),
        Index("outbox_answers", "inbox", "number"),
        # Whether the agent has answered in a thread; only Slack asks.
        Index("outbox_in_thread", "channel", "account", "conversation", "thread",
              sqlite_where=text("channel = 'slack'"), postgresql_where=text("channel = 'slack'")),
        Index("outbox_repeated", "number", sqlite_where=text("possibly_repeated"),
              postgresql_where=text("possibly_repeated")),
        Index("outbox_sent_as", "channel", "account", "conversation", "external_id",
              sqlite_where=text("external_id IS NOT NULL"), postgresql_where=text("external_id IS NOT NULL")),
        Index("outbox_mail", "external_id", sqlite_where=text(MAIL_WORDS), postgresql_where=text(MAIL_WORDS)),
        Index("outbox_dead", "number", sqlite_where=text("status = 'dead'"), postgresql_where=text("status = 'dead'")),
    )  # fmt: skip

    number: int | None = Field(
        default=None,
        # SQLite counts up only a column declared INTEGER.
        sa_column=Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    )
    id: UUID = Field(unique=True)
    key: str = Field(unique=True)
    principal: UUID
    turn: UUID | None = None
    inbox: UUID | None = None
    channel: str
    account: str
    conversation: str
    thread: str
    content: str = Field(sa_column=Column(Text, nullable=False))
    status: str
    attempts: int = 0
    next_at: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    claimed_by: str | None = None
    claim_until: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    external_id: str | None = None
    error: str | None = None
    possibly_repeated: bool = False
    queued_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    settled_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


outbox = table(OutboxReply)


@dataclass(frozen=True)
class Address:
    """Where a reply goes, in a channel's terms."""

    channel: str
    account: str
    conversation: str
    thread: str


@dataclass(frozen=True)
class Reply:
    """A claimed reply. ``was_sending``: an earlier sender died between marking and recording: it may have gone out.

    ``edits``: the platform's id of the message whose place this takes (the last one of the reply whose id in hex is
    ``content["edits"]``); None for a reply that edits nothing, empty where that message never went out.
    """

    id: UUID
    key: str
    number: int
    principal: UUID
    turn: UUID | None
    inbox: UUID | None
    channel: str
    account: str
    conversation: str
    thread: str
    content: dict[str, Any]
    attempts: int
    queued_at: int
    was_sending: bool
    edits: str | None = None
