"""``/schedule``: words of a person's own that are said again when it is time; listed, made, paused, run, removed."""

from __future__ import annotations

from sqlalchemy import Connection

from identity.users import GUEST
from router import schedule_texts as texts
from router import schedules as firing
from router.commands.command import Asked, Command, Said
from workspace_store import inbox, schedules
from workspace_store.approvals import Place
from workspace_store.database import database_now_us
from workspace_store.outbox import Address
from workspace_store.recurrence import BadTime
from workspace_store.schedule_words import read
from workspace_store.schedules import Schedule, Wanted


def _schedule(connection: Connection, asked: Asked) -> str | Said:
    verb, _, rest = asked.rest.partition(" ")
    verb, rest = verb.lower(), rest.strip()
    if verb in ("", "list"):
        return _list(connection, asked)
    if verb == "help":
        return texts.USAGE
    if asked.room is not None and asked.user.role == GUEST:
        return texts.FOR_MEMBERS
    if verb in _CHANGES:
        found = schedules.find(connection, asked.principal, rest)
        if found is None:
            return texts.no_such(rest)
        return _CHANGES[verb](connection, asked, found)
    return _add(connection, asked, rest if verb == "add" else asked.rest)


def _list(connection: Connection, asked: Asked) -> str:
    found = schedules.of(connection, asked.principal)
    nothing = texts.NONE_OF_ROOM if asked.room else texts.NONE
    return "\n".join(map(texts.line, found)) or nothing


def _add(connection: Connection, asked: Asked, words: str) -> str:
    if not words:
        return texts.USAGE
    limits = asked.schedules
    said = inbox.find(connection, asked.envelope.dedupe_key)
    assert said is not None, "a command is recorded before it acts"
    try:
        wanted = read(words, database_now_us(connection), limits.zone)
        made = schedules.add(
            connection,
            asked.principal,
            asked.user.id,
            Wanted(wanted.when, wanted.text, wanted.missed or "catch-up", bool(wanted.to_last)),
            Place(Address(*said.strand), inbox.reply_later(said)),
            asked.envelope.sender.external_id,
            limits,
        )
    except BadTime as error:
        return texts.not_understood(str(error))
    return texts.added(made)


def _pause(connection: Connection, asked: Asked, found: Schedule) -> str:
    return texts.paused(found) if schedules.pause(connection, found) else texts.unchanged(found)


def _resume(connection: Connection, asked: Asked, found: Schedule) -> str:
    if not schedules.resume(connection, found):
        return texts.unchanged(found)
    return texts.resumed(schedules.get(connection, found.id))


def _remove(connection: Connection, asked: Asked, found: Schedule) -> str:
    return texts.removed(found) if schedules.remove(connection, found) else texts.no_such(found.code)


def _run(connection: Connection, asked: Asked, found: Schedule) -> str | Said:
    woken = firing.run_now(connection, found, asked.envelope.dedupe_key)
    return Said(texts.runs(found), woken=(woken,)) if woken is not None else texts.unchanged(found)


_CHANGES = {"pause": _pause, "resume": _resume, "remove": _remove, "run": _run}

COMMANDS = {
    "schedule": Command("says words of yours when it is time; `/schedule help`", _schedule, for_rooms=True),
}
