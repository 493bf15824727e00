"""What undo and redo go along."""

from __future__ import annotations

from uuid import UUID

import pytest

from workspace_store.checkpoints import CommittedGeneration
from workspace_store.timeline import draw

TURN = UUID(int=1)


def line(*made: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``t``: a turn that changed files, ``l``: one that only looked, ``s``: a sleep, ``=N``: restored from N."""
    rows = []
    for number, what in enumerate(made, 1):
        turn = None if what == "s" else TURN
        restored = int(what[1:]) if what[0] == "=" else None
        rows.append(
            CommittedGeneration(number, "", turn, "", 1, 1, 2, False, 0, 1 if what in ("t", "s") else 0, restored)
        )
    drawn = draw(rows)
    return drawn.past, drawn.future


@pytest.mark.parametrize(
    ("made", "past", "future"),
    [
        ("", (0,), ()),
        ("t", (0, 1), ()),
        ("l t", (1, 2), ()),
        ("t t s", (0, 1, 3), ()),
        ("t t =1", (0, 1), (2,)),
        ("t t =1 =2", (0, 1, 2), ()),
        ("t t t =2 =1", (0, 1), (2, 3)),
        ("t t t =1 =2", (0, 1, 2), (3,)),
        ("t t =1 l s", (0, 5), (2,)),
        ("t t =1 t", (0, 1, 4), ()),
        ("t l t =1", (0, 2), (3,)),
        ("t t s =2", (0, 1, 3), ()),
        ("t =0", (0,), (1,)),
        ("t =0 s =1", (3, 1), ()),
    ],
)
def test_what_is_past_and_what_may_come_again(made: str, past: tuple[int, ...], future: tuple[int, ...]) -> None:
    assert line(*made.split()) == (past, future)
