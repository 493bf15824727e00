"""Schedules as people write them."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_store.recurrence import BadTime, at_local
from workspace_store.schedule_words import in_words, read

NOW = round(datetime.fromisoformat("2026-11-30T13:20:05+00:00").timestamp() * 1e6)


@pytest.mark.parametrize(
    ("words", "when", "first", "text"),
    [
        ("every 30 minutes: is it green?", "every 30 minutes", "2026-11-30T13:50:05+00:00", "is it green?"),
        ("every 2h say hi", "every 2 hours", "2026-11-30T15:20:05+00:00", "say hi"),
        ("hourly: x", "every hour", "2026-11-30T14:20:05+00:00", "x"),
        ("every day at 7:30 in Europe/Berlin: what is new?", "cron 30 7 * * * Europe/Berlin",
         "2026-12-01T07:30:00+01:00", "what is new?"),
        ("every day: hello", "cron 20 13 * * * UTC", "2026-12-01T13:20:00+00:00", "hello"),
        ("weekdays at 9am: plan", "cron 0 9 * * mon-fri UTC", "2026-12-01T09:00:00+00:00", "plan"),
        ("every monday and friday at 9 pm: x", "cron 0 21 * * mon,fri UTC", "2026-11-30T21:00:00+00:00", "x"),
        ("every mon,wed at 17.15 (Asia/Tokyo) y", "cron 15 17 * * mon,wed Asia/Tokyo",
         "2026-12-02T17:15:00+09:00", "y"),
        ("every month on the 1st at 9:00: rent", "cron 0 9 1 * * UTC", "2026-12-01T09:00:00+00:00", "rent"),
        ("at 2026-12-01 09:00: call Ann", "at 2026-12-01 09:00 UTC", "2026-12-01T09:00:00+00:00", "call Ann"),
        ("at 2026-12-01T09:00 Europe/Berlin call Ann", "at 2026-12-01 09:00 Europe/Berlin",
         "2026-12-01T09:00:00+01:00", "call Ann"),
        ("at 9:00: z", "at 2026-12-01 09:00 UTC", "2026-12-01T09:00:00+00:00", "z"),
        ("tomorrow at 9:00: z", "at 2026-12-01 09:00 UTC", "2026-12-01T09:00:00+00:00", "z"),
        ("in 20 minutes: oven", "at 2026-11-30 13:40 UTC", "2026-11-30T13:40:05+00:00", "oven"),
        ("in an hour tea", "at 2026-11-30 14:20 UTC", "2026-11-30T14:20:05+00:00", "tea"),
        ("in 20 minutes Europe/Berlin: oven", "at 2026-11-30 13:40 UTC", "2026-11-30T13:40:05+00:00", "oven"),
        ("cron 0 9 1,15 * * UTC: pay: all", "cron 0 9 1,15 * * UTC", "2026-12-01T09:00:00+00:00", "pay: all"),
        ("0 9 * * mon-fri say it", "cron 0 9 * * mon-fri UTC", "2026-12-01T09:00:00+00:00", "say it"),
        ("`*/5 * * * *`: $ date", "cron */5 * * * * UTC", "2026-11-30T13:25:00+00:00", "$ date"),
        ("@daily: x", "cron 0 0 * * * UTC", "2026-12-01T00:00:00+00:00", "x"),
        # What only looks like an option is part of what is to be said.
        ("every day at 9:00 in the morning paper", "cron 0 9 * * * UTC", "2026-12-01T09:00:00+00:00",
         "in the morning paper"),
        ("in 20 minutes skip the meeting", "at 2026-11-30 13:40 UTC", "2026-11-30T13:40:05+00:00", "skip the meeting"),
    ],
)  # fmt: skip
def test_what_people_write(words: str, when: str, first: str, text: str) -> None:
    found = read(words, NOW, "UTC")
    due = found.when.after(NOW)
    assert due is not None
    assert (in_words(found.when), at_local(due, found.when.zone).isoformat(), found.text) == (when, first, text)


@pytest.mark.parametrize(
    ("words", "missed", "to_last"),
    [
        ("weekdays at 9am skip missed: plan", "skip", None),
        ("every day at 8 skip: stretch", "skip", None),
        ("every day at 9:00 --missed catch-up --to last $ date", "catch-up", True),
        ("every hour to here missed skip: x", "skip", False),
        ("every hour: to last", None, None),
    ],
)
def test_options(words: str, missed: str | None, to_last: bool | None) -> None:
    found = read(words, NOW, "UTC")
    assert (found.missed, found.to_last) == (missed, to_last)


@pytest.mark.parametrize(
    "words",
    ["", "hello", "every", "every 5 fortnights: x", "at nine: x", "every day at 25:00: x", "cron 0 9 * *: x",
     "every day at 7:30 in Mars/Base: x", "in 99999999 weeks: x", "every 0 minutes: x", "at 13pm: x",
     "every month on 32 at 9: x", "at 2026-13-01 09:00: x"],
)  # fmt: skip
def test_what_is_not_understood_is_said(words: str) -> None:
    with pytest.raises(BadTime):
        read(words, NOW, "UTC")


def test_the_zone_of_the_settings_counts_where_none_is_named() -> None:
    assert in_words(read("every day at 7:30: x", NOW, "Asia/Tokyo").when) == "cron 30 7 * * * Asia/Tokyo"


@given(st.text(max_size=60))
def test_whatever_is_written_is_understood_or_refused(words: str) -> None:
    for start in ("", "every day at ", "at 2026-", "in ", "every monday ", "cron * * * * "):
        try:
            found = read(start + words, NOW, "UTC")
            found.when.after(NOW)
        except BadTime:
            continue
