"""When something is due: by the clocks of a zone, through the hours that are skipped and those that come twice."""

from __future__ import annotations

from datetime import datetime
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_store import recurrence
from workspace_store.recurrence import BadTime, Recurrence, at_local


def us(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1e6)


def due(when: Recurrence, after: str, count: int = 3) -> list[str]:
    return [at_local(one, when.zone).isoformat() for one in islice(when.times(us(after)), count)]


@pytest.mark.parametrize(
    ("zone", "before", "then"),
    [
        # The hour is skipped: at the first moment after it, once.
        ("Europe/Berlin", "2026-03-29T00:00+01:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        ("America/New_York", "2026-03-08T00:00-05:00", ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]),
        # The hour comes twice: in its first round, once.
        ("Europe/Berlin", "2026-10-25T00:00+02:00", ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        ("Europe/Berlin", "2026-10-25T02:10+01:00", ["2026-10-26T02:30:00+01:00", "2026-10-27T02:30:00+01:00"]),
        # Half an hour of daylight saving time: it is back at 2:30 itself.
        ("Australia/Lord_Howe", "2026-10-04T00:00+10:30", ["2026-10-04T02:30:00+11:00", "2026-10-05T02:30:00+11:00"]),
        # None at all.
        ("Asia/Kolkata", "2026-03-29T00:00+05:30", ["2026-03-29T02:30:00+05:30", "2026-03-30T02:30:00+05:30"]),
        ("UTC", "2026-03-29T00:00+00:00", ["2026-03-29T02:30:00+00:00", "2026-03-30T02:30:00+00:00"]),
    ],
)
def test_half_past_two_every_night(zone: str, before: str, then: list[str]) -> None:
    assert due(recurrence.cron("30 2 * * *", zone), before, 2) == then


def test_half_past_one_in_new_york_when_one_oclock_comes_twice() -> None:
    when = recurrence.cron("30 1 * * *", "America/New_York")
    assert due(when, "2026-11-01T00:00-04:00", 2) == ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]


def test_a_midnight_that_does_not_exist() -> None:
    when = recurrence.cron("0 0 * * *", "America/Santiago")
    assert due(when, "2026-09-05T12:00-04:00", 2) == ["2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"]


def test_two_times_in_a_skipped_hour_are_one() -> None:
    when = recurrence.cron("0,30 2 * * *", "Europe/Berlin")
    assert due(when, "2026-03-29T00:00+01:00", 2) == ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]


@pytest.mark.parametrize("line", ["30 * * * *", "30 */1 * * *"])
def test_what_is_due_all_the_hour_round_follows_real_time(line: str) -> None:
    when = recurrence.cron(line, "Europe/Berlin")
    assert due(when, "2026-10-25T02:00+02:00") == [
        "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00",
    ]  # fmt: skip
    assert due(when, "2026-03-29T01:00+01:00", 2) == ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"]


@pytest.mark.parametrize(
    ("line", "then"),
    [
        ("0 9 * * mon-fri", ["2026-12-01T09:00:00+00:00", "2026-12-02T09:00:00+00:00"]),
        ("*/20 8-9 1 JAN *", ["2027-01-01T08:00:00+00:00", "2027-01-01T08:20:00+00:00"]),
        ("0 0 L * *", ["2026-12-31T00:00:00+00:00", "2027-01-31T00:00:00+00:00"]),
        ("0 0 * * 7", ["2026-12-06T00:00:00+00:00", "2026-12-13T00:00:00+00:00"]),
        # Day of month or day of week, where both are given.
        ("0 0 13 * fri", ["2026-12-04T00:00:00+00:00", "2026-12-11T00:00:00+00:00"]),
        ("@daily", ["2026-12-01T00:00:00+00:00", "2026-12-02T00:00:00+00:00"]),
        ("0 12 29 2 *", ["2028-02-29T12:00:00+00:00", "2032-02-29T12:00:00+00:00"]),
    ],
)
def test_cron_lines(line: str, then: list[str]) -> None:
    assert due(recurrence.cron(line), "2026-11-30T12:00+00:00", 2) == then


@pytest.mark.parametrize(
    "line",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "0 0 30 2 *", "*/0 * * * *", "a b c d e", "@reboot",
     "0 0 * * mon#1/2", "0 0 ² * *", "-1 * * * *", "5-1 * * * *", "0 0 * * " + "1," * 200],
)  # fmt: skip
def test_what_is_no_cron_line_is_refused(line: str) -> None:
    with pytest.raises(BadTime, match=r"write for example|never comes"):
        recurrence.cron(line)


@pytest.mark.parametrize("name", ["Mars/Base", "Europe", "../../etc/passwd", "", "Europe/Berlin\0", "/etc/localtime"])
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(BadTime, match="Europe/Berlin"):
        recurrence.cron("0 0 * * *", name)


def test_a_moment_that_is_skipped_is_the_first_after_the_gap_and_one_that_comes_twice_the_first() -> None:
    skipped = Recurrence("at", "2026-03-29T02:30:00", "Europe/Berlin")
    assert due(skipped, "2026-01-01T00:00+00:00") == ["2026-03-29T03:00:00+02:00"]
    twice = Recurrence("at", "2026-10-25T02:30:00", "Europe/Berlin")
    assert due(twice, "2026-01-01T00:00+00:00") == ["2026-10-25T02:30:00+02:00"]
    assert due(twice, "2026-10-25T02:30+02:00") == []


def test_an_interval_keeps_its_phase_whatever_the_clocks_do() -> None:
    start = us("2026-10-24T12:00+00:00")
    when = Recurrence("every", "86400", "Europe/Berlin", start)
    assert due(when, "2026-10-24T12:00+00:00", 2) == ["2026-10-25T13:00:00+01:00", "2026-10-26T13:00:00+01:00"]


@given(
    st.sampled_from(["30 2 * * *", "*/7 * * * *", "0 9 * * mon-fri", "15 1,2,3 * * *", "0 0 1 * *"]),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo"]),
    st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1)),
)
def test_times_go_forward_and_looking_again_finds_the_same(line: str, zone: str, start: datetime) -> None:
    when, moment = recurrence.cron(line, zone), us(start.isoformat() + "+00:00")
    times = list(islice(when.times(moment), 5))
    assert moment < times[0]
    assert all(a < b for a, b in pairwise(times))
    # A process that starts anew after each of them goes on with the next.
    assert [when.after(one) for one in times[:-1]] == times[1:]


@pytest.mark.parametrize("when", [recurrence.cron("*/5 * * * *"), Recurrence("every", "300", "UTC", 0)])
def test_what_was_missed_is_counted(when: Recurrence) -> None:
    first = us("2026-11-30T12:00+00:00")
    assert when.between(first, first) == (1, first)
    assert when.between(first, first + 299_000_000) == (1, first)
    assert when.between(first, us("2026-11-30T13:01+00:00")) == (13, us("2026-11-30T13:00+00:00"))
