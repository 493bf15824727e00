"""What the house tells its admins of itself: once an hour, and the last word is true."""

from __future__ import annotations

from functools import partial

import pytest

from identity.access import Access
from identity.users import Claim
from router import alarms, texts
from router.envelope import Envelope
from router.inbox import Inbox
from workspace_store import journal
from workspace_store.database import Database

OWNER = Claim("local", "", "owner", "owner", "token")


def disk(database: Database, *, is_short: bool) -> bool:
    return database.write_now(partial(alarms.disk, is_short=is_short))


async def test_a_disk_that_fills_again_and_again_is_told_of_once_an_hour(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = await Inbox(database, Access("allowlist", ()), lambda _: None).accept(
        Envelope("local", "", "m1", OWNER, "owner", "", "hello")
    )
    assert accepted is not None
    now = 10 * alarms.HOUR_US
    monkeypatch.setattr(alarms, "now_us", lambda: now)
    assert [disk(database, is_short=one) for one in (True, False, True, True)] == [True, True, False, False]
    now += alarms.HOUR_US
    assert disk(database, is_short=True), "what was kept back is told in the next hour"
    events = database.read_now(lambda c: journal.read(c, accepted.principal))
    told = [event.body["text"] for event in events if event.kind == "reply.queued" and event.body]
    assert told == [texts.DISK_FULL, texts.DISK_HAS_ROOM, texts.DISK_FULL]


def test_without_anybody_to_tell_nothing_waits_to_be_told(database: Database) -> None:
    assert disk(database, is_short=True)
