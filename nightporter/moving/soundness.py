"""What came in is read here, once, by what will read it later: before it counts, and with whoever brought it to blame.

Queues are read for everybody at once: a single row in them that cannot be read would hold up the whole house. What was
to be said where somebody else is heard is not said: whoever arrives brings words, and no right to a place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Table, select, update

from identity import merging, reach, rooms, users
from identity.access import email_key
from identity.luggage import owner_column
from identity.moves import MoveRefused
from identity.users import Claim
from workspace_store import approval_rows, continuations, inbox, inbox_counts, outbox, principal, schedules, timers
from workspace_store.database import database_now_us, to_json
from workspace_store.principal import principal as principals

UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)
NOT_THEIRS = "it was to be said where they are not known"
LOCAL = "local"
"""At whose channel nothing is sent: whoever asks for a reply has to be its reader."""
OPEN_MESSAGES = ("pending", "running", "taken")


def _reply(connection: Connection, row: Any) -> None:
    reply = outbox.reply_of(row)
    if (edited := reply.content.get("edits")) is not None:
        UUID(edited)
    _object(reply.content.get("reply") or {})


def _message(connection: Connection, row: Any) -> None:
    envelope = json.loads(row.envelope)
    _object(envelope.get("sender") or {})
    _object(envelope.get("reply") or {})


def _schedule(connection: Connection, row: Any) -> None:
    found = schedules.read(row)
    _object(found.place.reply)
    _goes_forward(found.when.after, database_now_us(connection))


def _timer(connection: Connection, row: Any) -> None:
    found = timers.read(row)
    _object(found.line.environment)
    _goes_forward(found.line.when.after, database_now_us(connection))


def _approval(connection: Connection, row: Any) -> None:
    _object(approval_rows.read(row).place.reply)


def _continuation(connection: Connection, row: Any) -> None:
    for words in (row.left, row.place):
        outbox.Address(**json.loads(words))


def _merge(connection: Connection, row: Any) -> None:
    moved = _object(json.loads(row.moved or "{}"))
    for name, store in merging.MOVED.items():
        stored: Table = getattr(store, name.removesuffix("s"))
        ids = [UUID(one) for one in moved.get(name, ())]
        whose = connection.execute(select(stored.c.principal).where(stored.c.id.in_(ids))).scalars().all()
        if not set(whose) <= {row.kept, row.absorbed, principal.root(connection, row.kept)}:
            raise ValueError("what it gives back is somebody else's")


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("no object")
    return value


def _goes_forward(after: Callable[[int], int | None], now: int) -> None:
    following = after(now)
    if following is not None and following <= now:
        raise ValueError("it is due in the past for ever")


READERS: Sequence[tuple[Table, Callable[[Connection, Any], None]]] = (
    (outbox.outbox, _reply),
    (inbox.inbox, _message),
    (schedules.schedule, _schedule),
    (timers.timer, _timer),
    (approval_rows.approval, _approval),
    (continuations.continuation, _continuation),
    (merging.merge, _merge),
)


def check(connection: Connection, user: UUID, owners: Sequence[UUID]) -> None:
    """Read every row that arrived as what it is. ``user``: who all of them are. Raises MoveRefused."""
    _check_family(connection, user, owners)
    for found, read in READERS:
        for row in connection.execute(select(found).where(owner_column(found).in_(owners))):
            try:
                read(connection, row)
            except UNREADABLE as error:
                raise MoveRefused(f"it has a {found.name} that nobody can read: {str(error)[:100]}") from error


def _check_family(connection: Connection, user: UUID, owners: Sequence[UUID]) -> None:
    """One person comes: whoever else is in it was merged into them, each into one, and nobody into themselves."""
    for row in connection.execute(select(principals.c.id, principals.c.merged_into).where(principals.c.id.in_(owners))):
        if row.merged_into != (None if row.id == user else user):
            raise MoveRefused(f"it has a principal, {row.id}, who is not the person it is about")
    done = select(merging.merge.c.absorbed, merging.merge.c.kept).where(
        merging.merge.c.kept.in_(owners), merging.merge.c.state == "done"
    )
    rows = connection.execute(done).all()
    into = {row.absorbed: row.kept for row in rows}
    if len(into) != len(rows):
        raise MoveRefused("it has a merge of somebody who was merged twice")
    for absorbed in into:
        seen, at = {absorbed}, into[absorbed]
        while at in into and at not in seen:
            seen.add(at)
            at = into[at]
        if at in seen:
            raise MoveRefused("it has a merge of somebody into themselves")


# Places


def settle_places(connection: Connection, owners: Sequence[UUID], *, fork: bool) -> None:
    """What is open and would be said at somebody else's place ends; nothing more is said there.

    What is due later is said where they write from now on. A fork is known at no place of the one whose copy it is.
    """
    theirs = _Theirs(connection, owners, fork=fork)
    for owner in owners:
        _settle_messages(connection, owner, theirs)
        found = connection.execute(
            select(continuations.continuation).where(continuations.continuation.c.principal == owner)
        ).one_or_none()
        if found is not None and not theirs.holds(outbox.Address(**json.loads(found.place)), {}):
            continuations.end(connection, owner)
    for found_in, open_, closed in (
        (outbox.outbox, ("queued", "sending", "draft"), {"status": "withdrawn", "error": NOT_THEIRS}),
        (schedules.schedule, ("active", "paused"), {"to_last": True}),
        (approval_rows.approval, ("pending", "approved"), {"status": "expired"}),
    ):
        rows = select(found_in).where(found_in.c.principal.in_(owners), found_in.c.status.in_(open_))
        for row in connection.execute(rows).all():
            content = json.loads(row.content) if found_in is outbox.outbox else {"reply": json.loads(row.reply)}
            reply, values = content.get("reply") or {}, dict(closed)
            if theirs.holds(row, reply):
                values = _content_here(content, reply) if found_in is outbox.outbox else {}
            if values:
                connection.execute(update(found_in).where(found_in.c.id == row.id).values(**values))


def _content_here(content: Mapping[str, Any], reply: Mapping[str, Any]) -> dict[str, Any]:
    """Whom else it was to be sent to, and by which URL, was for the place it comes from to say."""
    kept = inbox.later(reply)
    return {} if kept == reply else {"content": to_json({**content, "reply": kept})}


def _settle_messages(connection: Connection, owner: UUID, theirs: _Theirs) -> None:
    strange, ended = [], 0
    for row in connection.execute(select(inbox.inbox).where(inbox.inbox.c.principal == owner)).all():
        envelope = json.loads(row.envelope)
        reply, values = envelope.get("reply") or {}, {}
        if not theirs.holds(row, reply):
            strange.append(row.id)
            values = {"status": "withdrawn"} if row.status in (*OPEN_MESSAGES, "waiting") else {}
            ended += row.status in OPEN_MESSAGES
        elif row.status in OPEN_MESSAGES and inbox.later(reply) != reply:
            values = {"envelope": to_json({**envelope, "reply": inbox.later(reply)})}
        if values:
            connection.execute(update(inbox.inbox).where(inbox.inbox.c.id == row.id).values(**values))
    inbox.disown(connection, strange)
    if ended:
        inbox_counts.drained(connection, owner, ended)


class _Theirs:
    """Which places are of those who arrive."""

    def __init__(self, connection: Connection, owners: Sequence[UUID], *, fork: bool) -> None:
        self._connection, self._owners, self._fork = connection, owners, fork
        self._known: dict[tuple[str, str, str], bool] = {}
        self._addresses = {
            one.external_id
            for owner in owners
            for one in users.identities(connection, owner)
            if one.channel == reach.EMAIL
        }

    def holds(self, at: Any, reply: Mapping[str, Any]) -> bool:
        """``at``: whatever has ``channel``, ``account`` and ``conversation``."""
        if at.channel == LOCAL:
            return True
        if self._fork:
            return False
        if at.channel == reach.EMAIL:
            # Mail goes to whomever it names: only to those who have proven to be there.
            return {at.conversation, email_key(str(reply.get("to") or at.conversation))} <= self._addresses
        key = (at.channel, at.account, at.conversation)
        if key not in self._known:
            self._known[key] = not self._is_somebodys(*key)
        return self._known[key]

    def _is_somebodys(self, channel: str, account: str, conversation: str) -> bool:
        known = users.identity_of(self._connection, Claim(channel, account, conversation))
        if known is not None and known.user not in self._owners:
            return True
        if rooms.at(self._connection, channel, account, conversation) is not None:
            return True
        there = (
            inbox.inbox.c.channel == channel, inbox.inbox.c.account == account,
            inbox.inbox.c.conversation == conversation,
        )  # fmt: skip
        heard = select(inbox.inbox.c.id).where(*there, inbox.inbox.c.principal.not_in(self._owners)).limit(1)
        return self._connection.execute(heard).first() is not None
