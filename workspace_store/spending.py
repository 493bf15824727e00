"""What models cost: tokens and money of a principal, by day (UTC) and model, counted up with each answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Field, SQLModel

from workspace_store.database import table, today


class SpendingRow(SQLModel, table=True):
    """``micro_usd``: millionths of a US dollar, of the answers whose price is known; ``unpriced``: how many are not."""

    __tablename__ = "spending"

    principal: UUID = Field(primary_key=True)
    day: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    answers: int = Field(sa_column=Column(BigInteger, nullable=False))
    unpriced: int = Field(sa_column=Column(BigInteger, nullable=False))
    input_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    output_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    cached_tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
    micro_usd: int = Field(sa_column=Column(BigInteger, nullable=False))


spending = table(SpendingRow)


class Cost(Protocol):
    """What one answer cost; ``micro_usd`` None where the price is not known."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def micro_usd(self) -> int | None: ...


@dataclass(frozen=True)
class Spent:
    """A day's sum."""

    answers: int
    unpriced: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    micro_usd: int
    allowed_micro_usd: int = 0
    """Allowed beyond the daily budget, by approvals."""


ALLOWED = "(allowed)"
"""Stands for the model in the row of what was allowed beyond the budget."""
SUMMED = ("answers", "unpriced", "input_tokens", "output_tokens", "cached_tokens", "micro_usd")


def add(connection: Connection, owner: UUID, model: str, cost: Cost) -> None:
    """Count one answer."""
    counted = {
        "answers": 1,
        "unpriced": int(cost.micro_usd is None),
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        "cached_tokens": cost.cached_tokens,
        "micro_usd": cost.micro_usd or 0,
    }
    _count(connection, owner, today(), model, counted)


def allow(connection: Connection, owner: UUID, day: str, micro_usd: int) -> None:
    """Let a day cost so much more."""
    _count(connection, owner, day, ALLOWED, dict.fromkeys(SUMMED, 0) | {"micro_usd": micro_usd})


def _count(connection: Connection, owner: UUID, day: str, model: str, counted: dict[str, int]) -> None:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insert = dialect.insert(spending).values(principal=owner, day=day, model=model, **counted)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["principal", "day", "model"],
            set_={name: spending.c[name] + value for name, value in counted.items()},
        )
    )


def of_today(connection: Connection, owner: UUID) -> Spent:
    """What a principal has spent since midnight UTC."""
    rows = connection.execute(select(spending).where(spending.c.principal == owner, spending.c.day == today())).all()
    sums = {name: sum(getattr(row, name) for row in rows if row.model != ALLOWED) for name in SUMMED}
    return Spent(**sums, allowed_micro_usd=sum(row.micro_usd for row in rows if row.model == ALLOWED))
