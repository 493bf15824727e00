"""The schema's version: looked at cheaply at every start, migrated (which imports alembic) only when it differs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, MetaData, inspect, text

from workspace_store.database import create_engine, sqlite_path

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0025"
OLDEST = "0024"
"""The schema of the oldest release that runs on this one: every migration after it only adds (CONTRIBUTING.md)."""
MIGRATIONS = Path(__file__).parent / "migrations"


OLDEST_SQLITE = (3, 35)
"""The first that knows RETURNING."""


class SqliteTooOld(Exception):
    """This Python's SQLite cannot do what the statements need."""


class SchemaTooNew(Exception):
    """The database was written by a newer release than this one."""


def version(connection: Connection) -> str | None:
    """The migration the database is at; None: an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def is_for_older(connection: Connection) -> bool:
    """Whether this release runs on a newer one's schema: all that was added since, it may leave alone."""
    if not inspect(connection).has_table("schema_floor"):
        return False
    oldest = connection.execute(text("SELECT oldest FROM schema_floor")).scalar()
    return oldest is not None and str(oldest) <= HEAD


def upgrade(url: str) -> bool:
    """Bring the database to this release's schema; whether anything had to be done.

    Raises SchemaTooNew, and sqlalchemy's OperationalError where the database cannot be reached.
    """
    path = sqlite_path(url)
    if path is not None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise SqliteTooOld(
                f"this Python has SQLite {sqlite3.sqlite_version} and 3.35 or newer is needed; "
                "use another Python (make PYTHON=…), or set database_url to PostgreSQL"
            )
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            found = version(connection)
            if found == HEAD:
                return False
            if found is not None and found > HEAD:
                if is_for_older(connection):
                    return False
                raise SchemaTooNew(
                    f"the database is at schema {found} and this release knows {HEAD}; start the newer release"
                )
            if path is None:
                # Several hosts may start at once: one migrates, the others wait and find it done.
                connection.execute(text("SELECT pg_advisory_xact_lock(61157)"))
                if version(connection) == HEAD:
                    return False
            from alembic import command

            command.upgrade(alembic_config(connection), "head")
            connection.execute(text("DELETE FROM schema_floor"))
            connection.execute(text("INSERT INTO schema_floor (oldest) VALUES (:oldest)"), {"oldest": OLDEST})
            return True
    finally:
        engine.dispose()


def alembic_config(connection: Connection, metadata: MetaData | None = None) -> Config:
    """Alembic's configuration for a connection; ``metadata`` only for writing a new migration."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["metadata"] = metadata
    return config
