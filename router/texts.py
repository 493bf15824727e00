"""What a person reads of intake: answers to commands."""

from __future__ import annotations

from datetime import UTC, datetime

from identity.names import harmless
from identity.rooms import Room
from identity.users import User
from workspace_store.checkpoints import CommittedGeneration

STOPPING = "Stopping."
NO_NOTES = "I keep no notes for you yet."
NO_GENERATIONS = "Your workspace has no generations yet."
NO_NOTES_OF_ROOM = "I keep no notes for this room yet."
NO_GENERATIONS_OF_ROOM = "This room's workspace has no generations yet."
STOP_IS_FOR_MEMBERS = "Only members can stop what runs here."
ANSWERED_IN_PRIVATE = (
    "That is between the two of us: I answer in our private conversation. If nothing comes there, write to me there "
    "first."
)


def status(waiting: int, awake: bool, generation: int, at: datetime | None) -> str:
    lines = [
        f"- messages waiting or running: {waiting}",
        f"- sandbox: {'awake' if awake else 'asleep'}",
        f"- workspace generation: {generation or 'none yet'}",
        f"- last turn: {at:%Y-%m-%d %H:%M:%S} UTC" if at else "- last turn: none yet",
    ]
    return "\n".join(lines)


def whoami(user: User, identities: list[tuple[str, str, str]]) -> str:
    known = ", ".join(f"{channel}:{external}" for channel, _, external in identities)
    return f"You are {user.display_name} (`{user.id}`), {user.role}. I know you as {known}."


def whoami_in_room(user: User, room: Room) -> str:
    called = f" {harmless(room.display_name)}" if room.display_name else ""
    return (
        f"This is the room{called} (`{room.id}`, {room.name}): what is said here belongs to it. You are "
        f"{harmless(user.display_name)} (`{user.id}`). Ask in private for the channels I know you at."
    )


def generation(found: CommittedGeneration) -> str:
    at = datetime.fromtimestamp(found.at / 1e6, UTC)
    changes = f"{found.files} files, {found.changed} changed"
    return f"- {found.generation}: {at:%Y-%m-%d %H:%M:%S} UTC, {changes}: {found.note}"
