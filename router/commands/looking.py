"""Commands that look: at what runs and is kept, at who one is; and ``/stop``."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection

from identity import users
from identity.users import GUEST
from router import texts
from router.commands.command import Asked, Command
from workspace_store import checkpoints, facts, inbox_counts
from workspace_store import tenancy as tenancies


def _status(connection: Connection, asked: Asked) -> str:
    held = tenancies.look(connection, asked.principal)
    waiting = inbox_counts.waiting(connection, asked.principal)
    latest = checkpoints.latest(connection, asked.principal)
    at = datetime.fromtimestamp(latest.at / 1e6, UTC) if latest else None
    # Only here: the gateway has no other use for it.
    from agent import briefing

    shown = briefing.read(connection, asked.principal).shown()
    lines = texts.status(waiting, held.host is not None, held.generation, at, shown)
    trouble = facts.trouble(connection, asked.principal)
    stopped = trouble is not None and trouble.failures >= facts.BREAKER
    return f"{lines}\n{texts.folding_stopped(trouble)}" if trouble is not None and stopped else lines


def _whoami(connection: Connection, asked: Asked) -> str:
    if asked.room is not None:
        return texts.whoami_in_room(asked.user, asked.room)
    return texts.whoami(asked.user, users.identities(connection, asked.user.id))


def _stop(connection: Connection, asked: Asked) -> str:
    if asked.room is not None and asked.user.role == GUEST:
        return texts.STOP_IS_FOR_MEMBERS
    busy = inbox_counts.waiting(connection, asked.principal)
    inbox_counts.stop(connection, asked.principal)
    return texts.STOPPING if busy else texts.NOTHING_TO_STOP


def _history(connection: Connection, asked: Asked) -> str:
    if name := asked.rest.strip():
        from agent import exact

        return exact.whole_turn(connection, asked.principal, name) or texts.NO_SUCH_TURN
    found = checkpoints.generations(connection, asked.principal, limit=20)
    nothing = texts.NO_GENERATIONS_OF_ROOM if asked.room else texts.NO_GENERATIONS
    return "\n".join(map(texts.generation, found)) or nothing


COMMANDS = {
    "status": Command("says what waits, runs and is kept", _status, for_rooms=True),
    "whoami": Command("names you and the channels you are known at", _whoami, for_rooms=True),
    "stop": Command("ends what is running", _stop, for_rooms=True),
    "history": Command(
        "lists the generations of your workspace; `/history TURN` tells a turn word for word", _history, for_rooms=True
    ),
}
