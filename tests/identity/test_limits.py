"""Over a limit: one clear answer, then silence, until there is room again; nobody pays for another's flood."""

from __future__ import annotations

import pytest

from identity import limits
from identity.limits import Limits


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def judged(found: Limits, sender: str, times: int, channel: str = "slack") -> list[str]:
    return [found.judge(channel, "T1", sender) for _ in range(times)]


def test_a_minutes_worth_is_taken_then_one_answer_then_silence(clock: Clock) -> None:
    found = Limits(3, 0, clock)
    assert judged(found, "U1", 6) == ["take", "take", "take", "answer", "drop", "drop"]
    clock.now += 20
    assert judged(found, "U1", 3) == ["take", "answer", "drop"]


def test_senders_have_buckets_of_their_own(clock: Clock) -> None:
    found = Limits(1, 0, clock)
    judged(found, "U1", 5)
    assert judged(found, "U2", 1) == judged(found, "u1", 1) == judged(found, "U1", 1, "telegram") == ["take"]


def test_a_full_channel_tells_each_sender_once(clock: Clock) -> None:
    found = Limits(0, 2, clock)
    judged(found, "U1", 2)
    assert judged(found, "U2", 2) == ["answer", "drop"]
    assert judged(found, "U3", 1) == ["answer"]
    assert judged(found, "U1", 1, "telegram") == ["take"]
    clock.now += 60
    assert judged(found, "U2", 3) == ["take", "take", "answer"]


def test_without_limits_everything_is_taken(clock: Clock) -> None:
    assert set(judged(Limits(clock=clock), "U1", 1000)) == {"take"}


def test_memory_is_bounded_however_many_send(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_SENDERS", 100)
    found = Limits(1, 0, clock)
    for number in range(1000):
        clock.now += 1
        found.judge("slack", "T1", f"U{number}")
    assert len(found._buckets) <= 101
