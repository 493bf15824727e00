"""Rooms: shared conversations, each a principal of its own with its own volume, journal and memory.

A room is one (channel, account, conversation). What is said there belongs to the room; who says it is an actor, and
nothing of an actor's own is read on the room's behalf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, bindparam, select, update
from sqlmodel import Field, SQLModel

from identity import users
from workspace_store import principal as principals
from workspace_store.database import now_us, table


class RoomRow(SQLModel, table=True):
    """A shared conversation. ``id`` is its principal's."""

    __tablename__ = "room"
    __table_args__ = (
        Index("room_key", "channel", "account", "conversation", unique=True),
        Index("room_age", "created_at"),
    )

    id: UUID = Field(primary_key=True, foreign_key="principal.id")
    channel: str
    account: str
    conversation: str
    display_name: str
    created_at: int = Field(sa_column=Column(BigInteger, nullable=False))


room = table(RoomRow)


@dataclass(frozen=True)
class Room:
    id: UUID
    channel: str
    account: str
    conversation: str
    display_name: str

    @property
    def name(self) -> str:
        """``slack:T1/C1``, ``telegram:-100…``: how a person types it."""
        at = f"{self.account}/" if self.channel == "slack" else ""
        return f"{self.channel}:{at}{self.conversation}"


_COLUMNS = [room.c[name] for name in Room.__dataclass_fields__]
_AT = (
    room.c.channel == bindparam("at"),
    room.c.account == bindparam("by"),
    room.c.conversation == bindparam("talk"),
)
_BY_KEY = select(*_COLUMNS).where(*_AT)


def at(connection: Connection, channel: str, account: str, conversation: str) -> Room | None:
    """The room of a conversation, if anything was ever accepted there."""
    row = connection.execute(_BY_KEY, {"at": channel, "by": account, "talk": conversation}).one_or_none()
    return Room(**row._mapping) if row else None


def get(connection: Connection, identifier: UUID) -> Room | None:
    row = connection.execute(select(*_COLUMNS).where(room.c.id == identifier)).one_or_none()
    return Room(**row._mapping) if row else None


def enter(connection: Connection, channel: str, account: str, conversation: str, title: str) -> Room:
    """The room of a conversation, made at the first accepted word; a new ``title`` is kept.

    Raises IntegrityError where another transaction made it first; run it again then.
    """
    there = at(connection, channel, account, conversation)
    if there is None:
        made = Room(uuid4(), channel, account, conversation, title)
        principals.create(connection, made.id, "room")
        connection.execute(room.insert().values(**made.__dict__, created_at=now_us()))
        users.record(connection, None, made.id, "room.created", {"room": made.name})
        return made
    if title and title != there.display_name:
        rename(connection, there.id, title)
        return Room(there.id, channel, account, conversation, title)
    return there


def rename(connection: Connection, identifier: UUID, title: str) -> None:
    connection.execute(update(room).where(room.c.id == identifier).values(display_name=title))


def move(connection: Connection, channel: str, account: str, old: str, new: str) -> Room | None:
    """The platform moved a conversation: its room goes with it; None where there is no such room (any more).

    What was said under the new name before this was known stays in a room of its own, which nobody reaches any more.
    """
    there = at(connection, channel, account, old)
    if there is None or old == new:
        return None
    early = at(connection, channel, account, new)
    if early is not None:
        left = f"{new}#{early.id.hex}"
        connection.execute(update(room).where(room.c.id == early.id).values(conversation=left))
    connection.execute(update(room).where(room.c.id == there.id).values(conversation=new))
    users.record(connection, None, there.id, "room.moved", {"from": old, "to": new})
    return Room(there.id, channel, account, new, there.display_name)


def find(connection: Connection, name: str) -> Room | None:
    """A room by UUID, or ``slack:T1/C1``, ``slack:C1``, ``telegram:-100…``."""
    try:
        return get(connection, UUID(name))
    except ValueError:
        channel, _, rest = name.partition(":")
    account, slash, conversation = rest.rpartition("/")
    query = select(*_COLUMNS).where(room.c.channel == channel, room.c.conversation == conversation)
    row = connection.execute(query.where(room.c.account == account) if slash else query).first()
    return Room(**row._mapping) if row else None


def listed(connection: Connection, after: int = 0, limit: int = 100) -> Sequence[tuple[Room, int]]:
    """Rooms with the time each was made (microseconds), oldest first, after that time."""
    query = select(*_COLUMNS, room.c.created_at).where(room.c.created_at > after).order_by(room.c.created_at)
    found = []
    for row in connection.execute(query.limit(limit)):
        given = dict(row._mapping)
        made = given.pop("created_at")
        found.append((Room(**given), made))
    return found
