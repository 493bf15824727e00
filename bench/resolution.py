"""Who writes, among 10,000 users: one look-up in the inbox's transaction, budget 2 ms; and a page of the list."""

from __future__ import annotations

import tempfile
import time
from functools import partial

from sqlalchemy import Connection

from bench.table import Row, show
from identity import users
from identity.access import Access, admit
from identity.users import Claim
from workspace_store import schema
from workspace_store.database import Database

USERS = 10_000


def measure(count: int = 500) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as folder:
        url = f"sqlite:///{folder}/nightporter.db"
        schema.upgrade(url)
        database = Database(url)
        for start in range(0, USERS, 1000):
            database.write_now(partial(_fill, start=start))
        access = Access("open", [])
        known, pages = [], []
        for number in range(count):
            claim = _claim((number * 7919) % USERS)
            known.append(_timed(database, lambda connection, claim=claim: admit(connection, claim, access)))
        last = None
        while page := database.read_now(partial(users.page, after=last, limit=100)):
            last = page[-1]
            pages.append(_timed(database, partial(users.page, after=last, limit=100)))
        database.close()
    return [
        Row("10,000 users: resolve a known sender", known, 2, "ms"),
        Row("10,000 users: a page of 100", pages, 20, "ms"),
    ]


def _claim(number: int) -> Claim:
    return Claim("telegram", "7", str(number), f"User {number}", "platform")


def _fill(connection: Connection, start: int) -> None:
    for number in range(start, start + 1000):
        users.create(connection, _claim(number), "member")


def _timed(database: Database, transaction: object) -> float:
    start = time.perf_counter()
    database.write_now(transaction)  # type: ignore[arg-type]
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    show(measure())
