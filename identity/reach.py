"""Where a user can be reached in private: at a channel, or where they last wrote.

Only what is proven to be theirs counts: the conversation of their last private message at a channel, or the address
that one of their identities is. A room is never a way to reach somebody.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection

from identity import rooms, users
from identity.users import Known
from workspace_store import continuations, inbox
from workspace_store.inbox import Row
from workspace_store.outbox import Address

EMAIL = "email"
"""At whose channel an identity's id is the address, and each subject a thread of its own."""
TELEGRAM = "telegram"
"""Where who speaks as a group or channel has an id below zero: no private conversation is there."""


def at(connection: Connection, user: UUID, channel: str, account: str | None = None) -> Address | None:
    """Their private conversation at a channel, the last used one first; None: no identity of theirs is there."""
    known = [
        (found.account, found.external_id)
        for found in users.identities(connection, user)
        if found.channel == channel and account in (None, found.account)
    ]
    if not known:
        return None
    if channel != EMAIL:
        for row in inbox.newest(connection, user, channel):
            known_there = row.actor == user and any(row.account == place for place, _ in known)
            if known_there and not _is_room(connection, row):
                return Address(channel, row.account, row.conversation, row.thread)
    place, external = known[-1]
    return None if channel == TELEGRAM and external.startswith("-") else Address(channel, place, external, "")


def of(known: Known) -> Address | None:
    """Where an identity is reached that never wrote, or is somebody else's now."""
    if known.channel == TELEGRAM and known.external_id.startswith("-"):
        return None
    return Address(known.channel, "" if known.channel == EMAIL else known.account, known.external_id, "")


def last(connection: Connection, user: UUID) -> Address | None:
    """Where they wrote last in private, at whichever channel; None: they never have."""
    for row in inbox.newest(connection, user):
        if row.actor == user and not _is_room(connection, row):
            return Address(row.channel, row.account, row.conversation, row.thread)
    return None


def lose(connection: Connection, user: UUID, identities: Sequence[Known]) -> list[UUID]:
    """These are not theirs any more: where they spoke, nothing of this user's is said. The inbox rows they said."""
    said = inbox.said_by(connection, user, {known.key for known in identities})
    inbox.disown(connection, said)
    continuations.end(connection, user)
    return said


def _is_room(connection: Connection, row: Row) -> bool:
    """Before there were rooms, what was said in one went to whoever said it."""
    return rooms.at(connection, row.channel, row.account, row.conversation) is not None
