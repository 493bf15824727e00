"""Chat commands that act at intake: a deduplicated row, an answer at once, no turn.

``/name`` or ``!name`` on every channel. What is not named here goes on to the agent as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Connection

from identity import users
from identity.users import User
from router import texts
from workspace_store import checkpoints, memory, principal
from workspace_store import tenancy as tenancies

COMMAND = re.compile(r"\s*[/!](?P<name>[a-z]+)(?:@\S+)?(?:\s+(?P<rest>.*))?\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """A command as it was said: by whom, about which principal."""

    user: User
    principal: UUID
    rest: str


Answer = Callable[[Connection, Asked], str]


def find(text: str) -> tuple[Answer, str] | None:
    """The command a text is, and the rest of its line; None for any other text."""
    match = COMMAND.fullmatch(text)
    if not match:
        return None
    command = COMMANDS.get(match["name"].lower())
    return (command.answer, (match["rest"] or "").strip()) if command else None


def _help(connection: Connection, asked: Asked) -> str:
    return "\n".join(f"- `/{name}` {command.summary}" for name, command in COMMANDS.items())


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


@dataclass(frozen=True)
class Command:
    summary: str
    answer: Answer


COMMANDS = {
    "help": Command("lists these commands", _help),
    "status": Command("says what waits, runs and is kept", _status),
    "whoami": Command("names you and the channels you are known at", _whoami),
    "stop": Command("ends what is running", _stop),
    "memory": Command("lists the notes I keep for you", _memory),
    "history": Command("lists the generations of your workspace", _history),
}
