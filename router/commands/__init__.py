"""Chat commands that act at intake: a deduplicated row, an answer at once, no turn.

``/name`` or ``!name`` on every channel. What is not named here goes on to the agent as it was said. A module a subject;
``COMMANDS`` lists them all.
"""

from __future__ import annotations

import re

from sqlalchemy import Connection

from router.commands import (
    administering,
    approving,
    continuing,
    linking,
    looking,
    outside,
    remembering,
    rewinding,
    scheduling,
    tasking,
)
from router.commands.command import Answer, Asked, Command, Said

COMMAND = re.compile(r"\s*[/!](?P<name>[a-z]+)(?:@\S+)?(?:\s+(?P<rest>.*))?\s*", re.DOTALL | re.IGNORECASE)

__all__ = ["COMMANDS", "Answer", "Asked", "Command", "Said", "find"]


def find(text: str) -> tuple[Command, str] | None:
    """The command a text is, and the rest of its line; None for any other text."""
    match = COMMAND.fullmatch(text)
    if not match:
        return None
    command = COMMANDS.get(match["name"].lower())
    return (command, (match["rest"] or "").strip()) if command else None


def _help(connection: Connection, asked: Asked) -> str:
    return "\n".join(f"- `/{name}` {command.summary}" for name, command in COMMANDS.items())


COMMANDS = {
    "help": Command("lists these commands", _help, for_rooms=True),
    **looking.COMMANDS,
    **tasking.COMMANDS,
    **remembering.COMMANDS,
    **rewinding.COMMANDS,
    **approving.COMMANDS,
    **outside.COMMANDS,
    **scheduling.COMMANDS,
    **linking.COMMANDS,
    **continuing.COMMANDS,
    **administering.COMMANDS,
}
