"""Which deliveries to hooks were taken, for good: a replay is known however late it comes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, select
from sqlmodel import Field, SQLModel

from workspace_store.database import now_us, table


class HookDeliveryRow(SQLModel, table=True):
    """``key``: the sender's id of a delivery, or all that was signed of it, hashed; ``inbox``: its message."""

    __tablename__ = "hook_delivery"
    hook: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    inbox: UUID
    at: int = Field(sa_column=Column(BigInteger, nullable=False))


hook_delivery = table(HookDeliveryRow)


def find(connection: Connection, hook: str, keys: Sequence[str]) -> UUID | None:
    """The message of a delivery that was taken before under one of these keys."""
    known = (hook_delivery.c.hook == hook, hook_delivery.c.key.in_(keys))
    found: UUID | None = connection.execute(select(hook_delivery.c.inbox).where(*known).limit(1)).scalar()
    return found


def remember(connection: Connection, hook: str, keys: Sequence[str], message: UUID) -> None:
    """Remember a delivery. Raises IntegrityError where another has taken it meanwhile."""
    at = now_us()
    connection.execute(hook_delivery.insert(), [{"hook": hook, "key": key, "inbox": message, "at": at} for key in keys])
