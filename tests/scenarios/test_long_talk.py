"""A conversation of many turns in a window of 16k tokens: nothing promised or planted is lost, no turn costs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.long_talk import WINDOW, Talk, hold
from tests.turns.stage import Stage

CHARACTERS_PER_TOKEN = 4


async def talk_through(folder: Path, url: str, turns: int) -> None:
    stage, talk = Stage(folder, url), Talk(turns)
    try:
        async with stage.managing():
            server = await hold(stage, talk)
    finally:
        stage.database.close()
    lost = [one for one in talk.missing if one.startswith("turn ")]
    assert [one for one in talk.missing if one not in lost] == []
    # What `recall` does not bring back at the first try.
    assert len(lost) <= talk.asked_for // 5
    assert talk.asked_for >= turns // 10 - 7
    assert server.refused == []
    # JSON around the words counts as well here, so this is more than the model reads.
    assert max(talk.sent) / CHARACTERS_PER_TOKEN <= WINDOW
    _, second, *_, last = talk.medians([float(size) for size in talk.sent])
    assert last <= second * 1.1
    # There was more to say than a window holds.
    assert sum(talk.sent) > 10 * WINDOW * CHARACTERS_PER_TOKEN


@pytest.mark.slow
async def test_two_hundred_turns(tmp_path: Path, sqlite_url: str) -> None:
    await talk_through(tmp_path, sqlite_url, 200)


@pytest.mark.slow
async def test_two_thousand_turns(tmp_path: Path, sqlite_url: str) -> None:
    await talk_through(tmp_path, sqlite_url, 2000)
