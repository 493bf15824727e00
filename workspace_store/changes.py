"""What was changed of a message after it was said: each once by the platform's key, and told to the next turn.

A change recorded here starts no turn. Words are kept only until they were told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Index, Text, bindparam, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store.database import now_us, table
from workspace_store.statements import Prepared

Kind = Literal["edited", "deleted", "reacted"]
KEPT_CHARACTERS = 2000
TOLD_AT_ONCE = 20


class MessageChangeRow(SQLModel, table=True):
    """``key``: the platform's. ``before`` and ``after``: words, empty once they were told."""

    __tablename__ = "message_change"
    __table_args__ = (
        Index("message_change_untold", "principal", "at", sqlite_where=text("untold"),
              postgresql_where=text("untold")),
        Index("message_change_of", "message"),
    )  # fmt: skip

    key: str = Field(primary_key=True)
    principal: UUID
    message: UUID | None = None
    kind: str
    before: str = Field(sa_column=Column(Text, nullable=False))
    after: str = Field(sa_column=Column(Text, nullable=False))
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    untold: bool


message_change = table(MessageChangeRow)
_UNTOLD = Prepared(
    select(message_change)
    .where(message_change.c.principal == bindparam("of"), text("untold"))
    .order_by(message_change.c.at)
    .limit(TOLD_AT_ONCE)
)


@dataclass(frozen=True)
class Untold:
    """An edit (``before`` → ``after``) or a deletion (of ``before``) that no turn has been told of."""

    key: str
    kind: str
    before: str
    after: str


def is_known(connection: Connection, key: str) -> bool:
    return connection.execute(select(message_change.c.key).where(message_change.c.key == key)).first() is not None


def record(
    connection: Connection,
    key: str,
    principal: UUID,
    message: UUID | None,
    kind: Kind,
    *,
    tell: tuple[str, str] | None = None,
) -> None:
    """Record a change; ``tell``: the words before and after, for the next turn to know. IntegrityError for a known key.

    A newer change of the same message takes the place of what was not told yet, but for what it said at first.
    """
    before, after = tell or ("", "")
    if tell is not None:
        same = (message_change.c.message == message, text("untold"))
        older = connection.execute(select(message_change.c.before).where(*same).order_by(message_change.c.at)).first()
        before = older.before if older else before
        connection.execute(update(message_change).where(*same).values(untold=False, before="", after=""))
    connection.execute(
        message_change.insert().values(
            key=key, principal=principal, message=message, kind=kind, before=before[:KEPT_CHARACTERS],
            after=after[:KEPT_CHARACTERS], at=now_us(), untold=tell is not None,
        )
    )  # fmt: skip


def untold(connection: Connection, principal: UUID) -> list[Untold]:
    """What the principal's next turn should know, oldest first."""
    rows = _UNTOLD(connection, {"of": principal})
    return [Untold(row.key, row.kind, row.before, row.after) for row in rows]


def told(connection: Connection, keys: Sequence[str]) -> None:
    """A turn that knew of these has committed."""
    if keys:
        changed = update(message_change).where(message_change.c.key.in_(keys))
        connection.execute(changed.values(untold=False, before="", after=""))
