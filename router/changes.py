"""What happens to a message after it was said: an edit, a deletion, a reaction. None of these starts a turn.

Recorded once, as events of the message. Before its turn begins an edit replaces the text and a deletion withdraws it;
after that the principal's next turn is told. A thumb on an approval's own message answers the approval. Only who said
a message changes it, and what is about messages that are not known here is dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from identity import users
from identity.users import Claim, User
from router import actions, texts
from router.actions import Answered, Woken
from router.envelope import Envelope, dedupe_key
from workspace_store import approvals, changes, inbox, inbox_counts, journal, outbox, principal
from workspace_store.approvals import Approval, Hooks, Verdict
from workspace_store.database import Database
from workspace_store.inbox import Row
from workspace_store.journal import Event

log = structlog.get_logger()

JOURNALED_CHARACTERS = 2000
THUMBS: dict[str, Verdict] = {
    "👍": "approve", "+1": "approve", "thumbsup": "approve", "👎": "deny", "-1": "deny", "thumbsdown": "deny",
}  # fmt: skip
SKIN_TONES = "🏻🏼🏽🏾🏿"


@dataclass(frozen=True)
class Change:
    """``key``: the platform's own of this change. ``message``: the dedupe key of what was said, in the inbox's form.

    For a reaction, ``target`` is the platform's id of the message reacted to, often a reply of ours; ``account`` is
    where the conversation is, which need not be the sender's.
    """

    kind: Literal["edit", "delete", "reaction"]
    key: str
    message: str
    sender: Claim
    account: str
    conversation: str
    thread: str = ""
    text: str = ""
    emoji: str = ""
    target: str = ""
    removed: bool = False


@dataclass(frozen=True)
class Recorded:
    """What a change led to. ``said``: something is in the outbox."""

    said: bool = False
    woken: tuple[Woken, ...] = ()


@dataclass
class Changes:
    """Records changes. ``recorded`` is called after the commit. Raises DatabaseUnavailable: it must come again."""

    database: Database
    recorded: Callable[[Recorded], None]
    hooks: Hooks = field(default_factory=dict)

    async def __call__(self, change: Change) -> None:
        # The same one at the same moment, from two gateways: recorded once.
        with contextlib.suppress(IntegrityError):
            found = await self.database.write(lambda connection: self._record(connection, change))
            self.recorded(found)

    def _record(self, connection: Connection, change: Change) -> Recorded:
        if changes.is_known(connection, change.key):
            return Recorded()
        user = users.by_identity(connection, change.sender)
        if user is None or user.blocked or not change.sender.proof:
            return Recorded()
        if change.kind == "reaction":
            return self._react(connection, change, user)
        row = inbox.find(connection, change.message)
        if row is None or row.actor != user.id:
            log.debug("a change of a message that is not known, or not theirs", kind=change.kind)
            return Recorded()
        # From here on no turn begins with it, nor ends, until this has committed.
        principal.lock(connection, row.principal)
        row = inbox.get(connection, row.id) or row
        if change.kind == "edit":
            _edit(connection, change, row)
        else:
            _delete(connection, change, row)
        return Recorded()

    def _react(self, connection: Connection, change: Change, user: User) -> Recorded:
        place = (change.sender.channel, change.account, change.conversation)
        reply = outbox.sent_as(connection, *place, change.target)
        owner = outbox.owner_of(connection, reply) if reply else None
        message = None
        if owner is None:
            key = dedupe_key(change.sender.channel, change.account, f"{change.conversation}:{change.target}")
            row = inbox.find(connection, key)
            if row is None:
                return Recorded()
            owner, message = row.principal, row.id
        changes.record(connection, change.key, owner, message, "reacted")
        body = {"message": message.hex if message else None, "reply": reply.hex if reply else None,
                "emoji": change.emoji, "removed": change.removed, "by": user.id.hex}  # fmt: skip
        journal.append(connection, owner, [Event("message.reacted", body)], under=None)
        verdict = THUMBS.get(change.emoji.partition("::")[0].strip(SKIN_TONES))
        asked = approvals.of_question(connection, reply) if reply and verdict else None
        if asked is None or verdict is None:
            return Recorded()
        return self._answer(connection, change, user, asked, verdict)

    def _answer(
        self, connection: Connection, change: Change, user: User, asked: Approval, verdict: Verdict
    ) -> Recorded:
        if change.removed:
            if asked.decided_by != user.id:
                return Recorded()
            _explain(connection, change, asked, texts.taken_back(asked))
            return Recorded(said=True)
        answered = actions.answer(connection, asked.id, user, verdict, via="reaction", hooks=self.hooks)
        if not _is_agreed(answered, verdict):
            _explain(connection, change, asked, answered.text)
        return Recorded(True, answered.woken)


def _is_agreed(answered: Answered, verdict: Verdict) -> bool:
    """Whether the question itself says what this thumb says: nothing is to be explained."""
    if answered.decision.outcome == "decided":
        return not answered.decision.told
    now = answered.decision.approval
    agreed = ("approved", "consumed") if verdict == "approve" else ("denied",)
    return answered.decision.outcome == "already" and now is not None and now.status in agreed


def _explain(connection: Connection, change: Change, asked: Approval, text: str) -> None:
    outbox.queue(
        connection, key=f"reaction:{change.key}", principal=asked.principal, turn=None, inbox=None,
        to=asked.place.address, content={"text": text, "reply": dict(asked.place.reply)},
    )  # fmt: skip


def _edit(connection: Connection, change: Change, row: Row) -> None:
    envelope = Envelope.from_json(row.envelope)
    if envelope.text == change.text or row.kind != "message" or row.status == "withdrawn":
        return
    in_time = row.status == "pending"
    if in_time:
        inbox.rewrite(connection, row.id, replace(envelope, text=change.text).to_json())
    tell = None if in_time else (envelope.text, change.text)
    changes.record(connection, change.key, row.principal, row.id, "edited", tell=tell)
    body = {"message": row.id.hex, "text": change.text[:JOURNALED_CHARACTERS], "characters": len(change.text),
            "in_time": in_time}  # fmt: skip
    journal.append(connection, row.principal, [Event("message.edited", body)], under=None)


def _delete(connection: Connection, change: Change, row: Row) -> None:
    if row.kind != "message" or row.status == "withdrawn":
        return
    in_time = row.status == "pending"
    if in_time:
        inbox.finish(connection, [row.id], "withdrawn")
        inbox_counts.drained(connection, row.principal)
    tell = None if in_time else (Envelope.from_json(row.envelope).text, "")
    changes.record(connection, change.key, row.principal, row.id, "deleted", tell=tell)
    body = {"message": row.id.hex, "in_time": in_time}
    journal.append(connection, row.principal, [Event("message.deleted", body)], under=None)
