"""Statements of the hot path: compiled once, and on PostgreSQL given straight to the driver.

Going through SQLAlchemy's execution of a statement takes as much processor time again as the driver, and a message
takes a score of them. Types need no help there: UUIDs, integers, texts, bytes and truth values are the driver's own.
SQLite, whose types do, takes them as any other statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Executable, String, literal_column
from sqlalchemy.exc import DBAPIError, MultipleResultsFound, NoResultFound
from sqlalchemy.sql.elements import ClauseElement

_CURSOR = "nightporter_cursor"
_PARAMETER = re.compile(r"%\((\w+)\)s")


def words(*given: str) -> list[ColumnElement[str]]:
    """Fixed words for ``in_``, part of the statement: they need no quoting and are no parameters."""
    if not all(word.replace("_", "").isalnum() for word in given):
        raise ValueError(f"{given} are not plain words")
    return [literal_column(f"'{word}'", String) for word in given]


class Found(Protocol):
    """What a statement found, as SQLAlchemy's result has it."""

    @property
    def rowcount(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def all(self) -> Sequence[Any]: ...
    def first(self) -> Any: ...
    def one(self) -> Any: ...
    def one_or_none(self) -> Any: ...
    def scalar(self) -> Any: ...
    def scalar_one(self) -> Any: ...


class Rows:
    """All rows of a statement, each a named tuple."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: Sequence[Any], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> Sequence[Any]:
        return self._rows

    def first(self) -> Any:
        return self._rows[0] if self._rows else None

    def one_or_none(self) -> Any:
        if len(self._rows) > 1:
            raise MultipleResultsFound(f"{len(self._rows)} rows where there is one at most")
        return self.first()

    def one(self) -> Any:
        if not self._rows:
            raise NoResultFound("no row where there is one")
        return self.one_or_none()

    def scalar(self) -> Any:
        return self._rows[0][0] if self._rows else None

    def scalar_one(self) -> Any:
        return self.one()[0]


class Prepared:
    """A statement with named parameters, called with a connection and their values; the same names each time."""

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement
        self._compiled: tuple[str, Mapping[str, Any], frozenset[str]] | None = None

    def __call__(self, connection: Connection, given: Mapping[str, Any]) -> Found:
        """Execute it; errors are SQLAlchemy's, as of ``Connection.execute``. TypeError for other names than before."""
        if connection.dialect.name != "postgresql":
            assert isinstance(self.statement, Executable)
            return connection.execute(self.statement, given)
        sql, fixed = self.compiled(connection, given)
        return _execute(connection, sql, {**fixed, **given} if fixed else given)

    def compiled(self, connection: Connection, given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """Its words for PostgreSQL's driver, and the values that are always the same."""
        sql, fixed, names = self._compiled or self._compile(connection, given)
        if given.keys() != names:
            raise TypeError(f"{sorted(given)} given, and the first time {sorted(names)}")
        return sql, fixed

    def _compile(
        self, connection: Connection, given: Mapping[str, Any]
    ) -> tuple[str, Mapping[str, Any], frozenset[str]]:
        compiled = self.statement.compile(dialect=connection.dialect, column_keys=list(given))
        if getattr(compiled, "insert_prefetch", ()) or getattr(compiled, "update_prefetch", ()):
            raise TypeError(f"{compiled} has defaults that are made in Python: give all values")
        if "POSTCOMPILE" in str(compiled):
            raise TypeError(f"{compiled} has a list that is written out for each call: use ``words``")
        values = compiled.construct_params(dict(given)) or {}
        fixed = {name: value for name, value in values.items() if name not in given}
        self._compiled = str(compiled), fixed, frozenset(given)
        return self._compiled


class Together:
    """Writes that do not depend on each other: one statement on PostgreSQL, where each costs a round trip.

    They run in no particular order: none sees what another did, and no two may change the same row or draw from the
    same sequence. Nothing is written there before ``end``, nor without it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._writes: list[tuple[Prepared, Mapping[str, Any]]] = []

    def add(self, write: Prepared, given: Mapping[str, Any]) -> None:
        if self._connection.dialect.name == "postgresql":
            self._writes.append((write, given))
        else:
            write(self._connection, given)

    def end(self, last: Prepared, given: Mapping[str, Any]) -> Found:
        """With the last of them, whose result this is."""
        if not self._writes:
            return last(self._connection, given)
        writes, self._writes = [*self._writes, (last, given)], []
        values: dict[str, Any] = {}
        parts: list[str] = []
        for number, (write, its) in enumerate(writes):
            sql, fixed = write.compiled(self._connection, its)
            parts.append(sql)
            values |= {f"w{number}_{name}": value for name, value in {**fixed, **its}.items()}
        return _execute(self._connection, _joined(tuple(parts)), values)


@lru_cache(maxsize=256)
def _joined(writes: tuple[str, ...]) -> str:
    """Data-modifying statements in WITH. https://www.postgresql.org/docs/current/queries-with.html"""
    *before, last = (_PARAMETER.sub(rf"%(w{number}_\1)s", sql) for number, sql in enumerate(writes))
    return f"WITH {', '.join(f'w{number} AS ({sql})' for number, sql in enumerate(before))} {last}"


def write(connection: Connection, statement: Prepared, given: Mapping[str, Any], beside: Together | None) -> None:
    """At once, or with what else is written."""
    if beside is None:
        statement(connection, given)
    else:
        beside.add(statement, given)


def _execute(connection: Connection, sql: str, values: Mapping[str, Any]) -> Rows:
    cursor = _cursor(connection)
    for listen in connection.dispatch.before_cursor_execute:
        listen(connection, cursor, sql, values, None, False)
    try:
        cursor.execute(sql, values)
        # Cheaper than its ``description``, which names every column: None where there is nothing to read.
        rows = cursor.fetchall() if cursor.rownumber is not None else ()
    except connection.dialect.loaded_dbapi.Error as error:
        raise _named(connection, sql, values, error) from error
    return Rows(rows, cursor.rowcount)


def _cursor(connection: Connection) -> Any:
    """The one of its connection of the driver, kept: what it found is always read at once."""
    kept = connection.info
    if _CURSOR not in kept:
        from psycopg.rows import namedtuple_row

        kept[_CURSOR] = connection.connection.cursor(row_factory=namedtuple_row)
    return kept[_CURSOR]


def _named(connection: Connection, sql: str, given: Mapping[str, Any], error: Exception) -> BaseException:
    """The driver's error as SQLAlchemy's; a connection that is gone is not used again."""
    dialect = connection.dialect
    gone = dialect.is_disconnect(error, connection.connection.dbapi_connection, None)  # type: ignore[arg-type]
    if gone:
        connection.invalidate(error)
    return DBAPIError.instance(
        sql, given, error, dialect.loaded_dbapi.Error, connection_invalidated=gone, dialect=dialect
    )
