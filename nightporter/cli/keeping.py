"""``users forget``: all that is held of a person is erased, with a receipt."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from identity import administration, forgetting
from identity.administration import AdminRefused
from identity.users import User
from nightporter import signing
from nightporter.cli import texts, wiring
from nightporter.cli.administering import confirm
from nightporter.errors import CommandError
from nightporter.settings import Settings, load
from router import admin_texts
from workspace_store import liveness, principal
from workspace_store import tenancy as tenancies
from workspace_store.blobs import Blobs
from workspace_store.database import create_engine, sqlite_path
from workspace_store.volumes import Volumes

QUIET_SECONDS = 60.0
CHECKPOINT_TRIES = 100


def forget(name: str, *, yes: bool, as_json: bool) -> int:
    """End what runs for a person, erase everything, and keep a signed receipt. Run again after a crash, it goes on."""
    settings = load()

    def look(connection: Connection) -> tuple[User, list[UUID], str]:
        user, _ = administration.resolve(connection, name)
        details = administration.details(connection, user)
        return user, principal.scope(connection, user.id), admin_texts.show(details)

    user, owners, shown = _asked(settings, look, "read_now")
    if user.merged_into is not None:
        raise CommandError(texts.unmerge_first(str(user.id)))
    if not yes:
        confirm(f"{texts.about_to('forget for good', '')}\n{shown}")
    _asked(settings, lambda connection: administration.block(connection, user, None), "write_now")
    _wait_until_quiet(settings, owners)
    erased_files = _erase_files(settings, owners)

    def erase(connection: Connection) -> dict[str, Any]:
        erased = forgetting.erase(connection, owners)
        body = erased.body("the command line", {"files": erased_files})
        signature, public_key = signing.sign(settings.home, body)
        identifier = forgetting.keep_receipt(connection, body, signature)
        return {"receipt": str(identifier), "body": body, "signature": signature, "public_key": public_key}

    found = _asked(settings, erase, "write_now")
    _scrub(settings.database_url)
    sys.stdout.write((json.dumps(found) if as_json else texts.forgotten(found["receipt"])) + "\n")
    return 0


def _asked(settings: Settings, query: Any, door: str) -> Any:
    try:
        return wiring.run(settings, lambda connection, _: query(connection), None, door)
    except AdminRefused as error:
        raise CommandError(texts.not_done(str(error))) from error


def _wait_until_quiet(settings: Settings, owners: Sequence[UUID]) -> None:
    """Until no turn and no sandbox of theirs is left; who died holds nothing. Raises CommandError."""
    lives = settings.home / "run" / "lives"

    def busy(connection: Connection) -> bool:
        for owner in owners:
            held, seen = tenancies.look(connection, owner), principal.look(connection, owner)
            holders = [(held.host, held.expired), (seen.owner, seen.expired) if seen is not None else (None, True)]
            if any(by is not None and not liveness.is_dead(lives, by, expired=ended) for by, ended in holders):
                return True
        return False

    deadline = time.monotonic() + QUIET_SECONDS
    while _asked(settings, busy, "read_now"):
        if time.monotonic() > deadline:
            raise CommandError(texts.still_busy())
        time.sleep(0.2)


def _erase_files(settings: Settings, owners: Sequence[UUID]) -> list[str]:
    """Volumes with all their generations, and blobs: each principal's are nobody else's."""
    storage = settings.kept_in
    kept: Mapping[str, Volumes | Blobs] = {"volumes": storage.volumes(), "blobs": storage.blobs()}
    return [f"{name}/{owner}" for name, them in kept.items() for owner in owners if them.erase(owner)]


def _scrub(url: str) -> None:
    """What was deleted must not be left in the database's files: the write-ahead log, or dead rows."""
    engine = create_engine(url)
    try:
        if sqlite_path(url) is not None:
            connection = engine.raw_connection()
            for _ in range(CHECKPOINT_TRIES):
                # A reader that looks at an older state keeps the log for a moment.
                if connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0:
                    break
                time.sleep(0.1)
            connection.close()
        else:
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as found:
                found.exec_driver_sql("VACUUM")
    finally:
        engine.dispose()
