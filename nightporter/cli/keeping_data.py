"""``nightporter db``: checking, migrating, copying and moving the database.

A copy is one SQLite file whatever the database is, so that each can be restored into the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from nightporter import transfer
from nightporter.cli import db_texts, texts
from nightporter.cli.files import new_private
from nightporter.errors import FAILED, CommandError
from nightporter.settings import Settings, load
from nightporter.transfer import TransferError, Transferred
from workspace_store import liveness, schema
from workspace_store.database import create_engine, sqlite_path

ROLES = ("gateway", "runner", "sandbox-manager", "up")
PRIVATE = 0o600


def check(*, as_json: bool) -> int:
    settings = load()
    _must_be_there(settings)
    with _connected(settings.database_url) as connection:
        found = schema.version(connection)
        current = found == schema.HEAD
        unsound = _unsound(connection)
        rows = transfer.row_counts(connection) if current else {}
        events, broken = transfer.broken_journals(connection) if current else (0, [])
    whole = current and not unsound and not broken
    report = {
        "schema": found, "head": schema.HEAD, "faults": [*unsound, *broken], "events": events, "rows": rows,
        "sound": whole,
    }  # fmt: skip
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        for fault in [*unsound, *broken]:
            print(texts.plain(fault))
        print(db_texts.database_checked(str(found), schema.HEAD, sum(rows.values()), events, sound=whole))
    return 0 if whole else FAILED


def migrate(*, as_json: bool) -> int:
    settings = load()
    done = _upgraded(settings.database_url)
    _say({"migrated": done, "schema": schema.HEAD}, db_texts.database_migrated(schema.HEAD, done=done), as_json)
    return 0


def backup(file: Path, *, as_json: bool) -> int:
    settings = load()
    _must_be_there(settings)
    with _fresh(file) as half:
        path = sqlite_path(settings.database_url)
        if path is not None:
            _copy_online(path, half)
        else:
            _upgraded(f"sqlite:///{half}")
            with _connected(settings.database_url) as source, _connected(f"sqlite:///{half}", write=True) as target:
                transfer.copy(source, target)
    with _connected(f"sqlite:///{file}") as connection:
        rows = sum(transfer.row_counts(connection).values())
    _say({"file": str(file), "rows": rows}, db_texts.database_kept(file, rows), as_json)
    return 0


def restore(file: Path, *, replace: bool, as_json: bool) -> int:
    settings = load()
    _must_stand_still(settings)
    if not file.is_file():
        raise CommandError(texts.file_unreadable(file, "there is no such file"))
    aside: Path | None = None
    working = settings.home / f".restoring-{os.getpid()}.db"
    try:
        # A copy of the copy: it may be of an older release, and is to stay as it is.
        _copy_online(file, working)
        with _connected(f"sqlite:///{working}") as connection:
            if schema.version(connection) is None:
                raise CommandError(db_texts.not_a_copy(file, "it holds nothing of Nightporter's"))
        _upgraded(f"sqlite:///{working}")
        with _connected(f"sqlite:///{working}") as connection:
            if unsound := _unsound(connection):
                raise CommandError(db_texts.not_a_copy(file, unsound[0]))
        done, aside = _put_in_place(settings, working, replace=replace)
    except sqlite3.DatabaseError as error:
        raise CommandError(db_texts.not_a_copy(file, str(error))) from error
    finally:
        _remove(working)
    kept = str(aside) if aside else None
    said = db_texts.database_restored(file, sum(done.rows.values()), done.events, aside)
    _say({"rows": sum(done.rows.values()), "events": done.events, "before": kept}, said, as_json)
    return 0


def move(url: str, *, replace: bool, as_json: bool) -> int:
    settings = load()
    _must_be_there(settings)
    _must_stand_still(settings)
    if url == settings.database_url:
        raise CommandError(db_texts.moved_nowhere())
    _upgraded(url)
    done = _transferred(settings.database_url, url, replace=replace)
    report = {"to": url, "rows": done.rows, "events": done.events}
    _say(report, db_texts.database_moved(url, sum(done.rows.values()), done.events), as_json)
    return 0


def _put_in_place(settings: Settings, working: Path, *, replace: bool) -> tuple[Transferred, Path | None]:
    """Copy into the database; what an SQLite database held stays beside it as it was."""
    path, aside = sqlite_path(settings.database_url), None
    if path is not None and path.exists():
        if not replace:
            raise CommandError(db_texts.restore_over(path))
        aside = path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        _copy_online(path, aside)
    _upgraded(settings.database_url)
    return _transferred(f"sqlite:///{working}", settings.database_url, replace=replace), aside


def _transferred(source_url: str, target_url: str, *, replace: bool) -> Transferred:
    try:
        with _connected(source_url) as source, _connected(target_url, write=True) as target:
            return transfer.copy(source, target, replace=replace)
    except TransferError as error:
        raise CommandError(str(error)) from error


def _copy_online(path: Path, to: Path) -> None:
    """SQLite's own online backup: one moment of a database that may be in use. https://www.sqlite.org/backup.html"""
    new_private(to).close()
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(to)) as target:
        source.execute("PRAGMA busy_timeout = 30000")
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")


@contextlib.contextmanager
def _fresh(file: Path) -> Iterator[Path]:
    """A file to write that gets its name when it is whole."""
    if file.exists():
        raise CommandError(db_texts.copy_exists(file))
    half = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield half
        half.chmod(PRIVATE)
        _sync(half)
        # Not rename: what somebody put there meanwhile is not to be lost.
        os.link(half, file)
    except FileExistsError as error:
        raise CommandError(db_texts.copy_exists(file)) from error
    except OSError as error:
        raise CommandError(db_texts.copy_not_written(file, error.strerror or str(error))) from error
    except TransferError as error:
        raise CommandError(str(error)) from error
    finally:
        _remove(half)


def _remove(database: Path) -> None:
    """A database file of ours, with what SQLite puts beside it."""
    for end in ("", "-wal", "-shm", "-journal"):
        database.with_name(database.name + end).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unsound(connection: Connection) -> list[str]:
    """What SQLite itself finds wrong; PostgreSQL has no such look."""
    if connection.dialect.name != "sqlite":
        return []
    found = [str(row[0]) for row in connection.execute(text("PRAGMA integrity_check(20)"))]
    dangling = connection.execute(text("PRAGMA foreign_key_check")).all()
    return [*(one for one in found if one != "ok"), *(f"{row[0]}: a row refers to nothing" for row in dangling[:20])]


def _must_be_there(settings: Settings) -> None:
    path = sqlite_path(settings.database_url)
    if path is not None and not path.exists():
        raise CommandError(texts.never_started(settings.home))


def _must_stand_still(settings: Settings) -> None:
    lives = settings.home / "run" / "lives"
    living = [name for role in ROLES for name in liveness.alive(lives, role)] if lives.is_dir() else []
    if living:
        raise CommandError(db_texts.stop_first(settings.home))


def _upgraded(url: str) -> bool:
    try:
        return schema.upgrade(url)
    except (schema.SchemaTooNew, schema.SqliteTooOld, ArgumentError) as error:
        raise CommandError(str(error)) from error
    except DBAPIError as error:
        raise CommandError(db_texts.database_away(str(error.orig))) from error


@contextlib.contextmanager
def _connected(url: str, *, write: bool = False) -> Iterator[Connection]:
    """One moment of a database, to read; or one transaction, an error in which leaves everything as it was."""
    engine = create_engine(url)
    if not write and engine.dialect.name != "sqlite":
        engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        raise CommandError(db_texts.database_away(str(error.orig))) from error
    finally:
        engine.dispose()


def _say(report: dict[str, Any], sentence: str, as_json: bool) -> None:
    print(json.dumps(report, ensure_ascii=False) if as_json else sentence)
