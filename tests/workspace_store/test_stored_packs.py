"""Packs of an object store: what is fetched at once stays within bounds."""

from __future__ import annotations

from workspace_store.stored_packs import StoredPacks


def test_no_more_is_fetched_ahead_than_is_under_way() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        return number

    found = StoredPacks._in_threads(work, range(1000))
    assert next(found) == 0
    assert len(begun) <= 8
    assert list(found) == list(range(1, 1000))
