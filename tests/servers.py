"""Real servers for the tests: PostgreSQL, whose databases are emptied from one test to the next, and Valkey."""

from __future__ import annotations

from pathlib import Path

import psycopg

from nightporter.testing import servers
from nightporter.testing.servers import NotHere, Valkey
from workspace_store import schema

__all__ = ["NotHere", "PostgreSQL", "Valkey"]

MANY_ROWS = 500


class PostgreSQL(servers.PostgreSQL):
    """One server for all tests of a worker."""

    def __init__(self, template: Path | None = None) -> None:
        super().__init__(template=template)
        self._cleaned = 0
        self._cleaners: dict[str, psycopg.Connection] = {}

    def clean(self, name: str) -> None:
        """Empty a migrated database: much quicker than a new one."""
        try:
            # Kept: it knows the tables, which a new connection takes 30 ms to learn.
            self._clean(self._cleaners[name])
        except (KeyError, psycopg.OperationalError):  # a test may have ended it
            self._cleaners[name] = psycopg.connect(self.conninfo(name), autocommit=True)
            self._clean(self._cleaners[name])

    def _clean(self, connection: psycopg.Connection) -> None:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP TABLE IF EXISTS counter; ALTER TABLE journal_event ENABLE TRIGGER ALL")
        connection.execute("SET session_replication_role = replica")
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        tables = [table for (table,) in rows if table != "alembic_version"]
        look = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM \"{table}\"" for table in tables)
        filled = {table: count for table, count in connection.execute(look.encode()).fetchall() if count}
        self._cleaned += 1
        if sum(filled.values()) > MANY_ROWS or self._cleaned % 25 == 0:
            # Makes new files for every table and index, which takes long; but it leaves no dead rows.
            names = ", ".join(f'"{table}"' for table in tables)
            connection.execute(f"TRUNCATE {names} RESTART IDENTITY".encode())
        else:
            used = connection.execute(
                "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
            ).fetchall()
            statements = [f'DELETE FROM "{table}"' for table in filled]
            statements += [f'ALTER SEQUENCE "{sequence}" RESTART' for (sequence,) in used]
            connection.execute("; ".join([*statements, "SELECT 1"]).encode())
        connection.execute("UPDATE alembic_version SET version_num = %s", [schema.HEAD])
