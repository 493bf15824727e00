"""What a person reads from ``nightporter db``."""

from __future__ import annotations

from pathlib import Path

from nightporter.cli.texts import plain


def database_checked(found: str, head: str, rows: int, events: int, *, sound: bool) -> str:
    if found != head:
        return (
            f"The database is at schema {found}, this release has {head}; bring it there with: nightporter db migrate"
        )
    if not sound:
        return "The database is damaged; restore a copy with: nightporter db restore FILE --replace"
    return f"The database is sound: schema {head}, {rows} rows, {events} journal events whose chains hold."


def database_migrated(head: str, *, done: bool) -> str:
    return f"The database is at schema {head} now." if done else f"The database was at schema {head} already."


def database_kept(file: Path, rows: int) -> str:
    return (
        f"{file} holds a copy of the database ({rows} rows). Volumes and blobs are files of their own:"
        " keep the folders volumes and blobs of the home as well, after this."
    )


def database_restored(file: Path, rows: int, events: int, aside: Path | None) -> str:
    before = f" What was there before is in {aside}." if aside else ""
    return f"The database is as {file} was: {rows} rows, {events} journal events whose chains hold.{before}"


def database_moved(url: str, rows: int, events: int) -> str:
    return (
        f"Copied and compared: {rows} rows, {events} journal events whose chains hold. To use it, set in"
        f' nightporter.toml: database_url = "{url}"'
    )


def not_a_copy(file: Path, reason: str) -> str:
    return f"{file} is not a whole copy of a database ({reason}); nothing was changed."


def restore_over(path: Path) -> str:
    return f"There is a database in {path} already; to put the copy in its place, say --replace (it is kept beside it)."


def copy_exists(file: Path) -> str:
    return f"{file} exists already and is not written over; name another file."


def copy_not_written(file: Path, reason: str) -> str:
    return f"{file} cannot be written ({reason}); name a file in a folder of yours."


def stop_first(home: Path) -> str:
    return f"Nightporter runs in {home}; stop it first, so that nothing is written meanwhile."


def moved_nowhere() -> str:
    return "That is the database in use; name another one."


def database_away(reason: str) -> str:
    return f"The database cannot be used: {plain(reason).strip()}"
