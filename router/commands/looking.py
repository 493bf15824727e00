"""Commands that look: at what runs and is kept, at who one is; and ``/stop``."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection

from identity import users
from router import texts
from router.commands.command import Asked, Command
from workspace_store import checkpoints, memory, principal
from workspace_store import tenancy as tenancies


def _status(connection: Connection, asked: Asked) -> str:
    held = tenancies.look(connection, asked.principal)
    waiting = principal.waiting(connection, asked.principal)
    latest = checkpoints.latest(connection, asked.principal)
    at = datetime.fromtimestamp(latest.at / 1e6, UTC) if latest else None
    return texts.status(waiting, held.host is not None, held.generation, at)


def _whoami(connection: Connection, asked: Asked) -> str:
    return texts.whoami(asked.user, users.identities(connection, asked.user.id))


def _stop(connection: Connection, asked: Asked) -> str:
    principal.stop(connection, asked.principal)
    return texts.STOPPING


def _memory(connection: Connection, asked: Asked) -> str:
    notes = memory.notes(connection, asked.principal)
    return "\n".join(f"- {note.body}" for note in notes) or texts.NO_NOTES


def _history(connection: Connection, asked: Asked) -> str:
    found = checkpoints.generations(connection, asked.principal, limit=20)
    return "\n".join(map(texts.generation, found)) or texts.NO_GENERATIONS


COMMANDS = {
    "status": Command("says what waits, runs and is kept", _status),
    "whoami": Command("names you and the channels you are known at", _whoami),
    "stop": Command("ends what is running", _stop),
    "memory": Command("lists the notes I keep for you", _memory),
    "history": Command("lists the generations of your workspace", _history),
}
