"""``schedules``: what is said again when it is time, listed and changed as the one who runs this machine.

Rings no bell: runners look each second.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection

from identity import reach, users
from nightporter.cli import texts, wiring
from nightporter.errors import FAILED, CommandError
from nightporter.settings import load
from router import schedule_texts, schedules
from workspace_store import principal as principals
from workspace_store import schedules as rows
from workspace_store.approvals import Place
from workspace_store.database import database_now_us
from workspace_store.outbox import Address
from workspace_store.recurrence import BadTime
from workspace_store.schedule_words import Missed, in_words, read
from workspace_store.schedules import Schedule, Wanted


def listed(principal: str, *, as_json: bool) -> int:
    """Print schedules; with ``--json`` an object a line."""

    def query(connection: Connection, owner: UUID | None) -> list[Schedule]:
        return rows.of(connection, owner) if owner is not None else rows.all_of_them(connection)

    for found in wiring.run(load(), query, principal or None, "read_now"):
        _print(found, schedule_texts.line(found), as_json=as_json)
    return 0


def add(principal: str, when: str, text: str, zone: str, missed: Missed, by: str, *, as_json: bool) -> int:
    """Make a schedule for somebody, answered where they wrote last, or in the room."""
    settings = load()
    limits = settings.schedules.limits

    def write(connection: Connection, owner: UUID) -> Schedule:
        understood = read(when, database_now_us(connection), zone or limits.zone)
        if understood.text:
            raise BadTime(texts.not_of_a_time(understood.text[:60]))
        wanted = Wanted(understood.when, text, understood.missed or missed, to_last=True)
        who, at = _speaker(connection, owner, by), _place(connection, owner)
        return rows.add(connection, owner, who, wanted, at, "", limits)

    try:
        made: Schedule = wiring.run(settings, write, principal, "write_now")
    except BadTime as error:
        raise CommandError(f"{error}.") from error
    _print(made, schedule_texts.added(made), as_json=as_json)
    return 0


def change(code: str, verb: str, *, as_json: bool) -> int:
    """Pause, resume, run or remove one; 1 where that changes nothing."""

    def write(connection: Connection, _: object) -> tuple[Schedule, str, bool]:
        found = rows.by_code(connection, code)
        if found is None:
            raise CommandError(texts.no_schedule(code))
        done = {
            "pause": lambda: rows.pause(connection, found),
            "resume": lambda: rows.resume(connection, found),
            "remove": lambda: rows.remove(connection, found),
            "run": lambda: schedules.run_now(connection, found, uuid4().hex) is not None,
        }[verb]()
        now_is = found if verb == "remove" and done else rows.get(connection, found.id)
        said = {
            "pause": schedule_texts.paused, "resume": schedule_texts.resumed, "remove": schedule_texts.removed,
            "run": schedule_texts.runs,
        }[verb]  # fmt: skip
        return now_is, said(now_is) if done else schedule_texts.unchanged(now_is), done

    found, said, done = wiring.run(load(), write, None, "write_now")
    _print(found, said, as_json=as_json)
    return 0 if done else FAILED


def _speaker(connection: Connection, owner: UUID, by: str) -> UUID:
    """Whose word it is: the person's own; in a room somebody has to be named, or it is the owner."""
    if principals.kind(connection, owner) == "user" and not by:
        return owner
    named = users.find(connection, by or "owner")
    if named is None:
        raise CommandError(texts.nobody_called(by or "owner"))
    return named.id


def _place(connection: Connection, owner: UUID) -> Place:
    """A room's own conversation; a person's last one, looked for again each time."""
    from identity import rooms

    room = rooms.get(connection, owner)
    if room is not None:
        return Place(Address(room.channel, room.account, room.conversation, ""), {})
    return Place(reach.last(connection, owner) or Address("local", "", "", ""), {})


def as_json_of(found: Schedule) -> dict[str, Any]:
    """A schedule for programs to read. Times in Unix seconds."""
    return {
        "id": found.code, "principal": str(found.principal), "user": str(found.user), "kind": found.when.kind,
        "spec": found.when.spec, "zone": found.when.zone, "when": in_words(found.when), "text": found.text,
        "missed": found.missed, "status": found.status, "next": found.next_due and found.next_due / 1e6,
        "last": found.last_due and found.last_due / 1e6, "runs": found.runs, "note": found.note,
        "to": "last" if found.to_last else found.place.address.channel, "made_at": found.created_at / 1e6,
    }  # fmt: skip


def _print(found: Schedule, line: str, *, as_json: bool) -> None:
    shown = json.dumps(as_json_of(found), ensure_ascii=False) if as_json else texts.plain(line)
    sys.stdout.buffer.write(shown.encode("utf-8", "backslashreplace") + b"\n")
