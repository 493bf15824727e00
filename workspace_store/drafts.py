"""Drafts: a reply that is shown while its turn still runs is an outbox row from before its first post.

The row is a ``draft`` under the claim of the gateway that shows it. When the turn commits, the row becomes its first
reply, with ``content["draft"]``: the platform's id of what was posted, so that the final words replace it; empty where
that is not known. A draft is never sent by itself and holds nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, bindparam, select, update

from workspace_store import inbox
from workspace_store import principal as principals
from workspace_store.database import database_now_us, now_us, to_json
from workspace_store.outbox import Reply, outbox, reply_of
from workspace_store.statements import Prepared

RESERVED_SECONDS = 15
"""How long the gateway that showed a draft has its final words to itself: longer than a request of it may take."""

_FIND = Prepared(select(outbox).where(outbox.c.key == bindparam("of"), outbox.c.status == "draft"))


def key_of(turn: UUID) -> str:
    """What the draft of a turn is called in the outbox."""
    return f"draft:{turn.hex}"


def begin(
    connection: Connection,
    turn: UUID,
    message: UUID,
    claimer: str,
    is_dead: Callable[[str], bool],
    content: Callable[[inbox.Row], Mapping[str, Any] | None],
) -> tuple[Reply, str | None] | None:
    """The draft of a running turn, for this gateway to show, and what the platform calls what was posted of it.

    None: it is another gateway's, or the turn has ended.

    ``content``: of the row for a message; None: nothing is shown there. ``was_sending``: an earlier gateway died, and
    may have posted it without recording that.
    """
    row = inbox.get(connection, message)
    if row is None or row.turn != turn or row.status not in ("running", "taken"):
        return None
    there = _FIND(connection, {"of": key_of(turn)}).one_or_none()
    if there is not None:
        if there.claimed_by == claimer:
            return reply_of(there), there.external_id
        if there.claimed_by is not None and not is_dead(there.claimed_by):
            return None
        connection.execute(update(outbox).where(outbox.c.number == there.number).values(claimed_by=claimer))
        return reply_of(there, was_sending=not there.external_id), there.external_id
    found = content(row)
    if found is None:
        return None
    identifier = uuid4()
    connection.execute(
        outbox.insert().values(
            id=identifier, key=key_of(turn), principal=row.principal, turn=turn, inbox=message, channel=row.channel,
            account=row.account, conversation=row.conversation, thread=row.thread, content=to_json(dict(found)),
            status="draft", attempts=0, next_at=0, claimed_by=claimer, claim_until=0, possibly_repeated=False,
            queued_at=now_us(),
        )
    )  # fmt: skip
    return reply_of(_FIND(connection, {"of": key_of(turn)}).one()), None


def posted(connection: Connection, reply: UUID, claimer: str, external_id: str) -> bool:
    """Record what the platform calls the draft; False where it is a draft, or ours, no more."""
    mine = (outbox.c.id == reply, outbox.c.status == "draft", outbox.c.claimed_by == claimer)
    return connection.execute(update(outbox).where(*mine).values(external_id=external_id)).rowcount == 1


def still(connection: Connection, reply: UUID, claimer: str) -> bool:
    """Whether it is a draft of ours still."""
    query = select(outbox.c.number).where(
        outbox.c.id == reply, outbox.c.status == "draft", outbox.c.claimed_by == claimer
    )
    return connection.execute(query).first() is not None


def finish(connection: Connection, *, key: str, turn: UUID, message: UUID, content: dict[str, Any]) -> UUID | None:
    """Make the draft of a turn its reply, to be sent in its place; None where nothing was shown of it.

    Of a closed principal it stays as it was shown: nothing more is said for them.
    """
    there = _FIND(connection, {"of": key_of(turn)}).one_or_none()
    if there is None:
        return None
    if principals.is_closed(connection, there.principal):
        ended = {"status": "withdrawn", "settled_at": now_us()}
        connection.execute(update(outbox).where(outbox.c.number == there.number).values(**ended))
        return None
    connection.execute(
        update(outbox)
        .where(outbox.c.number == there.number)
        .values(
            key=key,
            inbox=message,
            content=to_json({**content, "draft": there.external_id or ""}),
            status="queued",
            external_id=None,
            # Its gateway may still be showing something: nobody else may send before that has ended.
            claim_until=database_now_us(connection) + RESERVED_SECONDS * 1_000_000,
        )
    )
    return UUID(str(there.id))


def draft_of(content: Mapping[str, Any]) -> str | None:
    """The platform's id of the draft that a reply ends; empty: not known; None: none was shown."""
    found = content.get("draft")
    return found if isinstance(found, str) else None
