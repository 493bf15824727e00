"""Statements are compiled once for all databases of a kind, where each engine would for itself (3 ms a statement)."""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy.util import LRUCache


class _OfAKind(LRUCache[Any, Any]):
    """Each engine has a dialect of its own; the servers behind them are the same one, or SQLite."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((type(key[0]), *key[1:]), value)


_compiled = _OfAKind(5000)
_create_engine = sqlalchemy.create_engine


def _sharing(*args: Any, **options: Any) -> sqlalchemy.Engine:
    engine = _create_engine(*args, **options)
    engine.update_execution_options(compiled_cache=_compiled)
    return engine


def share() -> None:
    sqlalchemy.create_engine = _sharing
