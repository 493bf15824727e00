"""A conversation of many turns in a window of 16k tokens: nothing promised or planted is lost, no turn costs more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.long_talk import WINDOW, Talk, hold
from tests.turns.stage import Stage


async def talk_through(stage: Stage, talk: Talk, window: int = WINDOW) -> Talk:
    """Hold the conversation; nothing that is needed is missing, and no request is larger than the window."""
    try:
        async with stage.managing():
            server = await hold(stage, talk, window)
    finally:
        stage.database.close()
    assert talk.missing == []
    assert talk.asked_for >= (talk.turns - talk.later) // talk.recalled_every - 1
    assert talk.promises
    assert server.refused == []
    assert max(talk.tokens) <= window
    # There was more to say than a window holds.
    assert sum(talk.tokens) > 5 * window
    return talk


@pytest.mark.slow
async def test_in_a_small_window_nothing_planted_is_lost(tmp_path: Path, sqlite_url: str) -> None:
    talk = await talk_through(Stage(tmp_path, sqlite_url), Talk(36, recalled_every=4, later=14), window=9_000)
    # What is needed no longer stands there word for word: it was looked up.
    assert talk.recalled


@pytest.mark.slow
async def test_two_thousand_turns(tmp_path: Path, sqlite_url: str) -> None:
    talk = await talk_through(Stage(tmp_path, sqlite_url), Talk(2000))
    assert talk.recalled > 50
    _, *full = talk.medians(talk.tokens)
    assert max(full) <= min(full) * 1.1
