"""The outbox: replies in order per conversation, each with an idempotency key.

A gateway claims rows under a lease of its own, marks ``sending`` before it sends and records the platform's id after;
a row found in ``sending`` under a dead claim is uncertain and settled by its channel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Connection, and_, bindparam, delete, func, or_, select, text, update

from workspace_store.database import database_now_us, now_us, storable, to_json
from workspace_store.outbox_rows import DEAD, OPEN, Address, OutboxReply, Reply, outbox
from workspace_store.principal import principal
from workspace_store.statements import Prepared, Together, write

__all__ = [
    "DEAD", "OPEN", "Address", "OutboxReply", "Reply", "Said", "answers", "any_due", "bury", "claim", "claimers",
    "counts", "discard", "edit", "is_there", "leave_uncertain", "outbox", "owner_of", "queue", "renew",
    "replace_content", "reply_of", "retry", "sent", "sent_all", "sent_as", "waits", "withdraw",
]  # fmt: skip

CLAIM_SECONDS = 60
# Built once: building a statement costs five times what executing it does.
_INSERT = Prepared(outbox.insert())
_THERE = select(outbox.c.id).where(outbox.c.key == bindparam("known_as"))
_CLOSED = select(principal.c.closed).where(principal.c.id == bindparam("of"))
_BEFORE = Prepared(select(_CLOSED.scalar_subquery().label("closed"), _THERE.scalar_subquery().label("there")))
_AHEAD = outbox.alias("ahead")
_BLOCKED = (
    select(_AHEAD.c.number)
    .where(
        _AHEAD.c.channel == outbox.c.channel,
        _AHEAD.c.account == outbox.c.account,
        _AHEAD.c.conversation == outbox.c.conversation,
        _AHEAD.c.number < outbox.c.number,
        _AHEAD.c.status.in_(OPEN),
    )
    .exists()
)
# What the claimer has in hand itself is under way however long it takes.
_ENDED = or_(
    outbox.c.claimed_by.is_(None),
    and_(outbox.c.claim_until < bindparam("now"), outbox.c.claimed_by != bindparam("claimer")),
    outbox.c.claimed_by.in_(bindparam("dead", expanding=True)),
)
# What ends a draft is for the gateway that showed it, for a while.
_FREE = or_(_ENDED, outbox.c.claimed_by == bindparam("claimer"))
_DUE = (
    outbox.c.channel.in_(bindparam("channels", expanding=True)),
    outbox.c.status.in_(OPEN),
    outbox.c.next_at <= bindparam("now"),
)
_CLAIMABLE = (
    select(outbox)
    .where(
        *_DUE,
        or_(and_(outbox.c.status == "queued", _FREE), and_(outbox.c.status == "sending", _ENDED)),
        ~_BLOCKED,
    )
    .order_by(outbox.c.number)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
_CLAIM = (
    update(outbox)
    .where(outbox.c.number.in_(bindparam("numbers", expanding=True)))
    .values(status="sending", claimed_by=bindparam("claimer"), claim_until=bindparam("until"))
)
_ANY_DUE = select(outbox.c.number).where(*_DUE).limit(1)
_CLAIMERS = select(outbox.c.claimed_by).where(outbox.c.status.in_(OPEN), outbox.c.claimed_by.is_not(None)).distinct()
_CLAIMED = (
    outbox.c.id == bindparam("of"),
    outbox.c.status == "sending",
    outbox.c.claimed_by == bindparam("claimer"),
)
_SENT = (
    update(outbox)
    .where(*_CLAIMED)
    .values(
        status="sent",
        external_id=bindparam("sent_as"),
        error=None,
        possibly_repeated=bindparam("repeated"),
        settled_at=bindparam("at"),
    )
)


def queue(
    connection: Connection,
    *,
    key: str,
    principal: UUID,
    turn: UUID | None,
    inbox: UUID | None,
    to: Address,
    content: dict[str, Any],
    is_new: bool = False,
    beside: Together | None = None,
) -> UUID | None:
    """Queue a reply; the same ``key`` again is the same reply. None: nothing is said for a closed principal.

    ``is_new``: this transaction has seen that the key is not there, and that its principal is not closed. ``beside``:
    what it is written with.
    """
    if not is_new:
        before = _BEFORE(connection, {"of": principal, "known_as": key}).one()
        if before.closed:
            return None
        if before.there is not None:
            return UUID(str(before.there))
    identifier = uuid4()
    row = {
        "id": identifier, "key": key, "principal": principal, "turn": turn, "inbox": inbox, "channel": to.channel,
        "account": to.account, "conversation": to.conversation, "thread": to.thread, "content": to_json(content),
        "status": "queued", "attempts": 0, "next_at": 0, "claim_until": 0, "possibly_repeated": False,
        "queued_at": now_us(),
    }  # fmt: skip
    write(connection, _INSERT, row, beside)
    return identifier


def replace_content(connection: Connection, reply: UUID, content: dict[str, Any]) -> None:
    """Keep something else of a reply than what went out."""
    connection.execute(update(outbox).where(outbox.c.id == reply).values(content=to_json(content)))


def is_there(connection: Connection, key: str) -> bool:
    """Whether a reply of this key was ever queued."""
    return connection.execute(_THERE, {"known_as": key}).first() is not None


def edit(connection: Connection, key: str, text: str, reply: dict[str, Any] | None = None) -> None:
    """Let what was queued under a key say something else from now on, without its buttons; nothing where it is gone."""
    row = connection.execute(select(outbox).where(outbox.c.key == key)).one_or_none()
    if row is not None:
        queue(
            connection, key=f"{key}:edited", principal=row.principal, turn=row.turn, inbox=None,
            to=Address(row.channel, row.account, row.conversation, row.thread),
            content={"text": text, "edits": UUID(str(row.id)).hex, "reply": reply or {}},
        )  # fmt: skip


def discard(connection: Connection, key: str) -> None:
    """Forget a reply that went out or was given up."""
    connection.execute(delete(outbox).where(outbox.c.key == key, outbox.c.status.in_(("sent", "dead"))))


def waits(connection: Connection, owner: UUID) -> bool:
    """Whether something for a principal is to go out and was never tried."""
    mine = (outbox.c.status.in_(OPEN), outbox.c.principal == owner, outbox.c.attempts == 0)
    return connection.execute(select(outbox.c.number).where(*mine).limit(1)).first() is not None


def withdraw(connection: Connection, owner: UUID) -> int:
    """Take back what waits to be sent for a principal that is closed now; how many replies."""
    waiting = update(outbox).where(outbox.c.status.in_(OPEN), outbox.c.status == "queued", outbox.c.principal == owner)
    return connection.execute(waiting.values(status="withdrawn", settled_at=now_us())).rowcount


def claim(connection: Connection, channels: list[str], claimer: str, dead: list[str], limit: int = 32) -> list[Reply]:
    """Claim the oldest due reply of each strand: ``queued``, or ``sending`` under an ended claim or a dead claimer.

    They are marked ``sending`` when this commits, before anything is sent. What a strand still has in front of a reply
    holds it back, so that order is kept; dead letters hold nothing back.
    """
    now = database_now_us(connection)
    given = {"channels": channels, "now": now, "claimer": claimer, "dead": dead, "most": limit}
    rows = connection.execute(_CLAIMABLE, given).all()
    if rows:
        until = now + CLAIM_SECONDS * 1_000_000
        connection.execute(_CLAIM, {"numbers": [row.number for row in rows], "claimer": claimer, "until": until})
    return [
        reply_of(
            row, was_sending=row.status == "sending", edits=_edited(connection, json.loads(row.content).get("edits"))
        )
        for row in rows
    ]


def reply_of(row: Any, *, was_sending: bool = False, edits: str | None = None) -> Reply:
    """A row as a channel is given it."""
    return Reply(
        row.id, row.key, row.number, row.principal, row.turn, row.inbox, row.channel, row.account, row.conversation,
        row.thread, json.loads(row.content), row.attempts, row.queued_at, was_sending, edits,
    )  # fmt: skip


def _edited(connection: Connection, reply: str | None) -> str | None:
    if reply is None:
        return None
    found = connection.execute(select(outbox.c.external_id).where(outbox.c.id == UUID(reply))).scalar()
    return (found or "").rpartition(" ")[2]


def sent_as(connection: Connection, channel: str, account: str, conversation: str, external_id: str) -> UUID | None:
    """The reply that went out as this one message of its platform."""
    return connection.execute(
        select(outbox.c.id)
        .where(
            outbox.c.channel == channel,
            outbox.c.account == account,
            outbox.c.conversation == conversation,
            outbox.c.external_id == external_id,
        )
        .order_by(outbox.c.number.desc())
        .limit(1)
    ).scalar()


def owner_of(connection: Connection, reply: UUID) -> UUID:
    """Whose reply it is."""
    return UUID(str(connection.execute(select(outbox.c.principal).where(outbox.c.id == reply)).scalar_one()))


def sent(connection: Connection, reply: UUID, claimer: str, external_id: str | None, *, repeated: bool = False) -> bool:
    """Record that a claimed reply went out; False where the claim had gone."""
    given = {"of": reply, "claimer": claimer, "sent_as": external_id, "repeated": repeated, "at": now_us()}
    return connection.execute(_SENT, given).rowcount == 1


def sent_all(connection: Connection, replies: Sequence[UUID], claimer: str) -> None:
    """Record that replies went out which this transaction has claimed, under their own ids."""
    at = now_us()
    rows = [{"of": one, "claimer": claimer, "sent_as": one.hex, "repeated": False, "at": at} for one in replies]
    if rows:
        connection.execute(_SENT, rows)


def renew(connection: Connection, claimer: str) -> None:
    """Prolong the claims of a living gateway, which sends longer than a claim lasts."""
    until = database_now_us(connection) + CLAIM_SECONDS * 1_000_000
    connection.execute(
        update(outbox)
        .where(outbox.c.status.in_(OPEN), outbox.c.status == "sending", outbox.c.claimed_by == claimer)
        .values(claim_until=until)
    )


def retry(connection: Connection, reply: UUID, claimer: str, error: str, next_at: int) -> bool:
    """Put a claimed reply that did not go out back until ``next_at`` (microseconds)."""
    return _settle(
        connection, reply, claimer, status="queued", error=error, next_at=next_at, claimed_by=None,
        attempts=outbox.c.attempts + 1,
    )  # fmt: skip


def leave_uncertain(connection: Connection, reply: UUID, claimer: str, error: str, next_at: int) -> bool:
    """Give up the claim of a reply that may have gone out; it stays ``sending`` and is due again at ``next_at``."""
    return _settle(
        connection, reply, claimer, error=error, next_at=next_at, claimed_by=None, claim_until=0,
        attempts=outbox.c.attempts + 1,
    )  # fmt: skip


def any_due(connection: Connection, channels: list[str]) -> bool:
    """Whether a round of claiming may find anything: a look that takes no lock."""
    found = connection.execute(_ANY_DUE, {"channels": channels, "now": database_now_us(connection)}).first()
    return found is not None


def claimers(connection: Connection) -> list[str]:
    """Who has claimed what is being sent."""
    rows = connection.execute(_CLAIMERS)
    return [row.claimed_by for row in rows]


def bury(connection: Connection, reply: UUID, claimer: str, error: str) -> bool:
    """Make a claimed reply a dead letter with its reason."""
    return _settle(
        connection, reply, claimer, status="dead", error=error, settled_at=now_us(), attempts=outbox.c.attempts + 1
    )


def _settle(connection: Connection, reply: UUID, claimer: str, **values: object) -> bool:
    if isinstance(error := values["error"], str):
        values["error"] = storable(error)
    changed = connection.execute(
        update(outbox)
        .where(outbox.c.id == reply, outbox.c.status == "sending", outbox.c.claimed_by == claimer)
        .values(**values)
    )
    return changed.rowcount == 1


@dataclass(frozen=True)
class Said:
    """A reply as its reader sees it. ``files``: ``name``, ``content_type``, ``size`` and ``blob`` of each.

    ``question``: its id where it asks something.
    """

    text: str
    at: int
    status: str
    possibly_repeated: bool
    files: Sequence[Mapping[str, Any]] = ()
    question: UUID | None = None


def answers(connection: Connection, message: UUID) -> list[Said]:
    """The replies to one message, in order."""
    rows = connection.execute(
        select(outbox.c.content, outbox.c.queued_at, outbox.c.status, outbox.c.possibly_repeated, outbox.c.id)
        .where(outbox.c.inbox == message, outbox.c.status.not_in(("draft", "withdrawn")))
        .order_by(outbox.c.number)
    )
    found = [(json.loads(row.content), row) for row in rows]
    return [
        Said(
            content["text"],
            row.queued_at,
            row.status,
            row.possibly_repeated,
            content.get("files") or (),
            row.id if content.get("buttons") else None,
        )
        for content, row in found
    ]


def counts(connection: Connection) -> dict[str, int]:
    """How many replies wait, are being sent, and are dead letters; how many possibly went out twice."""
    rows = connection.execute(
        select(outbox.c.status, func.count()).where(outbox.c.status.in_(OPEN)).group_by(outbox.c.status)
    )
    found = {"queued": 0, "sending": 0, **{row[0]: int(row[1]) for row in rows}}
    count = select(func.count()).select_from(outbox)
    found["dead"] = int(connection.execute(count.where(outbox.c.status == DEAD)).scalar_one())
    found["possibly_repeated"] = int(connection.execute(count.where(text("possibly_repeated"))).scalar_one())
    return found
