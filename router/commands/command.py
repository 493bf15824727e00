"""What a chat command is: a summary, and a function that answers in the transaction that records it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection

from identity.access import Access
from identity.rooms import Room
from identity.users import User
from router.actions import Woken
from router.doors import Doors
from router.envelope import Envelope
from workspace_store.approvals import Hooks
from workspace_store.schedule_limits import ScheduleLimits


@dataclass(frozen=True)
class Asked:
    """A command as it was said: by whom, about which principal, in which message.

    ``room``: where it is answered for all to see; None for what is answered in private, also if it was said in a room.
    """

    user: User
    principal: UUID
    rest: str
    envelope: Envelope
    access: Access
    room: Room | None = None
    hooks: Hooks = field(default_factory=dict)
    doors: Doors = field(default_factory=Doors)
    schedules: ScheduleLimits = field(default_factory=ScheduleLimits)


@dataclass(frozen=True)
class Said:
    """An answer with more than words. ``buttons``: ``{"action", "value", "label"}`` each.

    ``secret``: there is a code in it, which is not kept. ``decided``: the question that was answered says so itself,
    where it was asked. ``woken``: whose inbox got a row.
    """

    text: str
    buttons: tuple[Mapping[str, str], ...] = ()
    decided: bool = False
    secret: bool = False
    woken: tuple[Woken, ...] = ()


Answer = Callable[[Connection, Asked], "str | Said"]


@dataclass(frozen=True)
class Command:
    """``for_rooms``: said in a room, it acts and answers there for the room. Any other acts for who says it, and its
    answer goes to their private conversation: nothing of a member's own is shown in a room."""

    summary: str
    answer: Answer
    for_rooms: bool = False
    starts: str | None = None
    """The kind of inbox row that it becomes instead, for a runner to serve: it takes the lease."""
    secret: bool = False
    """What is said with it is a code, which is not kept."""
