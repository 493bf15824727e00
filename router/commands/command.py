"""What a chat command is: a summary, and a function that answers in the transaction that records it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from identity.access import Access
from identity.users import User
from router.envelope import Envelope


@dataclass(frozen=True)
class Asked:
    """A command as it was said: by whom, about which principal, in which message."""

    user: User
    principal: UUID
    rest: str
    envelope: Envelope
    access: Access


@dataclass(frozen=True)
class Said:
    """An answer with more than words. ``buttons``: ``{"action", "value", "label"}`` each."""

    text: str
    buttons: tuple[Mapping[str, str], ...] = ()


Answer = Callable[[Connection, Asked], "str | Said"]


@dataclass(frozen=True)
class Command:
    summary: str
    answer: Answer
