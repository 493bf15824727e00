"""How much a principal's sandboxes may send and fetch in a day: counted as it happens, kept in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from uuid import UUID

from sandbox_runner.egress import texts
from sandbox_runner.egress.answers import Refused
from sandbox_runner.egress.ledger import Ledger
from workspace_store import effects
from workspace_store.database import Database, DatabaseUnavailable, today


@dataclass
class _Spent:
    day: str
    requests: int
    bytes: int


class OverBudget(Exception):
    """In the middle of a transfer: the day's bytes are used up."""


class Budgets:
    """``requests`` and ``count`` (bytes): what a day has."""

    def __init__(self, database: Database, ledger: Ledger, requests: int, count: int) -> None:
        self._database = database
        self._ledger = ledger
        self._requests = requests
        self._bytes = count
        self._spent: dict[UUID, _Spent] = {}

    async def begin(self, principal: UUID, host: str, port: int) -> None:
        """Count one request. Raises Refused."""
        spent = self._spent.get(principal)
        if spent is None or spent.day != today():
            day = today()
            try:
                used = await self._database.read(partial(effects.used, owner=principal, day=day))
            except DatabaseUnavailable:
                raise Refused(503, "not_recorded", texts.cannot_record(), texts.HOW_AGAIN, host, port) from None
            spent = self._spent[principal] = _Spent(day, *used)
        for kind, used_up in (("requests", spent.requests >= self._requests), ("bytes", spent.bytes >= self._bytes)):
            if used_up:
                raise Refused(429, "over_budget", texts.over_budget(kind), texts.HOW_BUDGET, host, port)
        spent.requests += 1
        self._ledger.use(principal, 1, 0)

    def spend(self, principal: UUID, count: int) -> None:
        """Count bytes that were carried. Raises OverBudget."""
        self._ledger.use(principal, 0, count)
        spent = self._spent[principal]
        spent.bytes += count
        if spent.bytes > self._bytes:
            raise OverBudget
