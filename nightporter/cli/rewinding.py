"""``workspace state|diff|undo|redo|restore|export|import``: the history of files, from the command line.

What changes files is a row in the inbox, served by a runner under the lease, as if it had been said in chat.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection

from identity.users import Claim
from nightporter.cli import texts, wiring, workspace_texts
from nightporter.cli.files import new_private
from nightporter.errors import FAILED, CommandError, NotRunning
from nightporter.settings import Settings, load
from router.envelope import Envelope
from sandbox_runner import environment_file
from sandbox_runner.kept_state import STATE_FILE, STATE_FILE_BYTES, Refused, number_of
from sandbox_runner.rewind import INBOX_KIND
from workspace_store import archives, differences, inbox, inbox_counts, liveness, outbox, timeline
from workspace_store import tenancy as tenancies
from workspace_store.beneath import UnsafePath
from workspace_store.database import now_us
from workspace_store.packs import VolumeError
from workspace_store.volumes import Volume

_WAIT_SECONDS = 300.0
_POLL_SECONDS = 0.2
_DONE = ("done", "failed", "set_aside")


def state(name: str, *, as_json: bool) -> int:
    """Print the process state as it is kept now: terminals, tasks, and what was withheld."""
    settings, owner = _owner(name)
    held = wiring.run(settings, lambda connection, _: tenancies.look(connection, owner), None, "read_now")
    with _volume(settings, owner) as volume:
        try:
            data = volume.read_file(STATE_FILE, max_bytes=STATE_FILE_BYTES)
            kept = json.loads(data)
        except FileNotFoundError as error:
            raise CommandError(workspace_texts.no_state()) from error
        except (UnsafePath, VolumeError, ValueError) as error:
            raise CommandError(workspace_texts.state_unreadable(str(error))) from error
    try:
        number_of(data, held)
    except Refused as error:
        print(workspace_texts.state_not_believed(str(error)), file=sys.stderr)
    _print(json.dumps(kept, ensure_ascii=False) if as_json else texts.plain(workspace_texts.state(kept)))
    return 0


def environment(name: str, *, as_json: bool) -> int:
    """Print what is installed below HOME, as the sandbox wrote it down."""
    settings, owner = _owner(name)
    with _volume(settings, owner) as volume:
        try:
            found = environment_file.read(volume)
        except environment_file.Unreadable as error:
            raise CommandError(workspace_texts.environment_unreadable(str(error))) from error
    if as_json:
        _print(json.dumps(found and found.model_dump(), ensure_ascii=False))
    else:
        _print(texts.plain(workspace_texts.environment(found)) if found else workspace_texts.nothing_installed())
    return 0


def diff(name: str, number: int, *, as_json: bool) -> int:
    """Print what a generation changed, by default the last turn's."""
    settings, owner = _owner(name)
    line = wiring.run(settings, lambda connection, _: timeline.read(connection, owner), None, "read_now")
    after = number or max(line.past, default=0)
    if not after:
        raise CommandError(workspace_texts.no_generation())
    before = max((each for each in line.past if each < after), default=0)
    with _volume(settings, owner) as volume:
        try:
            if as_json:
                for change in differences.changes(volume, before, after):
                    _print(json.dumps({"path": change.path, "kind": change.kind}, ensure_ascii=False))
            else:
                _print(differences.between(volume, before, after) or workspace_texts.NOTHING_DIFFERS)
        except VolumeError as error:
            raise CommandError(texts.not_done(str(error))) from error
    return 0


def move(name: str, words: str, *, as_json: bool) -> int:
    """Say ``/undo``, ``/redo`` or ``/restore`` for a principal, and print the answer."""
    settings, owner = _owner(name)
    said = _ask(settings, owner, words)
    _print(json.dumps(said, ensure_ascii=False) if as_json else texts.plain("\n\n".join(said["replies"])))
    return 0 if said["status"] == "done" else FAILED


def export(name: str, file: Path, number: int, *, as_json: bool) -> int:
    """Write a generation into one ``.tar.zst``, by default the last committed one."""
    settings, owner = _owner(name)
    held = wiring.run(settings, lambda connection, _: tenancies.look(connection, owner), None, "read_now")
    wanted = number or held.generation
    if not wanted:
        raise CommandError(workspace_texts.no_generation())
    try:
        with _volume(settings, owner) as volume, new_private(file) as to:
            entries = archives.write(volume, wanted, to)
    except FileExistsError as error:
        raise CommandError(texts.export_exists(file)) from error
    except VolumeError as error:
        raise CommandError(texts.not_done(str(error))) from error
    size = file.stat().st_size
    body = {"file": str(file), "generation": wanted, "entries": entries, "bytes": size}
    _print(json.dumps(body) if as_json else workspace_texts.exported_workspace(str(file), wanted, entries, size))
    return 0


def import_(name: str, file: Path, *, as_json: bool) -> int:
    """Make a principal's files those of an archive, as a new generation."""
    settings, owner = _owner(name)
    try:
        with _volume(settings, owner) as volume, file.open("rb") as source:
            root = archives.read(volume, source)
    except (VolumeError, OSError) as error:
        raise CommandError(workspace_texts.not_imported(str(file), str(error))) from error
    return move(name, f"/import {root}", as_json=as_json)


def _owner(name: str) -> tuple[Settings, UUID]:
    settings = load()
    owner: UUID = wiring.run(settings, lambda _, owner: owner, name, "read_now")
    return settings, owner


def _volume(settings: Settings, owner: UUID) -> Volume:
    try:
        volumes = settings.kept_in.volumes()
        if not volumes.exists(owner):
            raise CommandError(workspace_texts.no_generation())
        volume = volumes.open(owner)
        volume.refresh()
        return volume
    except VolumeError as error:
        raise CommandError(str(error)) from error


def _ask(settings: Settings, owner: UUID, words: str) -> dict[str, Any]:
    """Queue a row for a runner and wait for its answer. Raises NotRunning."""
    if settings.database_url.startswith("sqlite") and not liveness.alive(settings.home / "run" / "lives", "runner"):
        raise NotRunning(workspace_texts.nothing_serves())
    identifier = uuid4()
    told = Envelope("local", "", identifier.hex, Claim("local", "", "", "", ""), "command line", "", words)

    def queue(connection: Connection, _: object) -> None:
        seq, _owner = inbox_counts.received(connection, owner)
        inbox.insert(
            connection, status="pending", id=identifier, dedupe_key=told.dedupe_key, principal=owner, seq=seq,
            kind=INBOX_KIND, actor=None, channel="local", account="", conversation=told.conversation, thread="",
            envelope=told.to_json(), received_at=now_us(),
        )  # fmt: skip

    wiring.run(settings, queue, None, "write_now")
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        row = wiring.run(settings, lambda connection, _: inbox.get(connection, identifier), None, "read_now")
        if row.status in _DONE:
            found = wiring.run(settings, lambda connection, _: outbox.answers(connection, identifier), None, "read_now")
            return {"status": row.status, "replies": [each.text for each in found]}
        time.sleep(_POLL_SECONDS)
    raise NotRunning(workspace_texts.nobody_serves())


def _print(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
