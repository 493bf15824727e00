"""Forgetting single things: notes, turns and imported words, with everything that repeats their words.

Rows, index, vectors and journal payloads go in one transaction; the chain still verifies. A turn that still runs is
left alone: it has no record yet. What is left says ``FORGOTTEN`` in their place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Table, delete, func, select, update

from workspace_store import (
    approvals,
    archiving,
    attachments,
    changes,
    checkpoints,
    commitments,
    context_heads,
    facts,
    inbox,
    journal,
    memory,
    memory_index,
    outbox,
    principal,
    schedules,
    tasks,
    texts,
)
from workspace_store.approvals import Approval, Decider, Place
from workspace_store.checkpoints import turn_record
from workspace_store.database import to_json
from workspace_store.imported import imported
from workspace_store.journal import Event
from workspace_store.memory import Hit, Note, note

FORGOTTEN = texts.FORGOTTEN
APPROVAL_KIND = "memory.forget"
TOLD = ("told", "agent")
"""Sources of notes that are what was said in their turn."""
SWEPT_CHARACTERS = 6
"""Shorter words are everywhere."""
EVENTS_BEFORE = 5000
"""How far before its turn the event is looked for that says that a message came."""


@dataclass(frozen=True)
class Target:
    """Something to forget; ``words`` are for a person to know it by."""

    kind: str
    id: UUID
    at: int = 0
    words: str = ""

    @property
    def name(self) -> str:
        return self.id.hex[: memory.NAMED_BY]


@dataclass
class Forgotten:
    """How much went."""

    notes: int = 0
    turns: int = 0
    imported: int = 0

    def to_json(self) -> dict[str, int]:
        return {"notes": self.notes, "turns": self.turns, "imported": self.imported}


def named(connection: Connection, owner: UUID, name: str) -> list[Target]:
    """What an id, or the beginning of one, names among an owner's notes, turns and imported words."""
    notes = [of_note(found) for found in memory.find(connection, owner, name)]
    wanted = name.lower().strip("`").replace("-", "")
    if len(wanted) < memory.NAMED_BY or not set(wanted) <= set("0123456789abcdef"):
        return []
    low, high = UUID(hex=wanted[:32].ljust(32, "0")), UUID(hex=wanted[:32].ljust(32, "f"))
    scope = principal.scope(connection, owner)
    turns = select(turn_record.c.turn, turn_record.c.at).where(
        turn_record.c.principal.in_(scope), turn_record.c.turn.between(low, high)
    )
    words = select(imported.c.id, imported.c.at, imported.c.text).where(
        imported.c.principal.in_(scope), imported.c.id.between(low, high)
    )
    found = [Target("turn", row.turn, int(row.at)) for row in connection.execute(turns)]
    return notes + found + [Target("imported", r.id, int(r.at), r.text) for r in connection.execute(words)]


def of_note(found: Note) -> Target:
    return Target("note", found.id, found.at, found.body)


def of_hit(hit: Hit) -> Target:
    return Target(hit.kind, UUID(hit.ref), hit.at, hit.body)


def with_origins(connection: Connection, owner: UUID, targets: Sequence[Target]) -> list[Target]:
    """The targets, with the turns in which forgotten notes were told and the notes told in forgotten turns, and the
    notes they took the place of."""
    found = {(one.kind, one.id): one for one in targets}
    scope = principal.scope(connection, owner)
    turns = [one.id for one in targets if one.kind == "turn"]
    told = (note.c.turn.in_(turns), note.c.principal.in_(scope), note.c.source.in_(TOLD))
    for row in connection.execute(select(note.c.id).where(*told)).all():
        (whole,) = memory.find(connection, owner, row.id.hex)
        found.setdefault(("note", whole.id), of_note(whole))
    for one in list(found.values()):
        if one.kind != "note":
            continue
        query = select(note.c.id).where(note.c.id == one.id, note.c.principal.in_(scope))
        if connection.execute(query).first() is None:
            continue
        (whole,) = memory.find(connection, owner, one.id.hex)
        for each in (whole, *memory.predecessors(connection, owner, whole)):
            found.setdefault(("note", each.id), of_note(each))
            if each.turn is not None and each.source in TOLD:
                found.setdefault(("turn", each.turn), Target("turn", each.turn, each.at))
    return list(found.values())


def forget(connection: Connection, owner: UUID, targets: Sequence[Target], *, by: str, told: bool = True) -> Forgotten:
    """Erase exactly these, where they are the owner's or of whoever was merged into them, and journal that.

    ``told`` False: the caller journals ``memory.forgotten`` itself.
    """
    scope = principal.scope(connection, owner)
    gone, words = Forgotten(), list[str]()
    for one in targets:
        if one.kind == "note":
            gone.notes += _note(connection, scope, one.id, words)
        elif one.kind == "turn":
            gone.turns += _turn(connection, scope, one.id, words)
        else:
            gone.imported += _imported(connection, scope, one.id, words)
    if words:
        _sweep(connection, scope, words)
        for one_of in scope:
            context_heads.drop(connection, one_of)
        memory_index.scour(connection)
    if told:
        journal.append(connection, owner, [event(gone, by)], under=None)
    return gone


def event(gone: Forgotten, by: str) -> Event:
    return Event("memory.forgotten", {**gone.to_json(), "by": by})


def _note(connection: Connection, scope: Sequence[UUID], identifier: UUID, words: list[str]) -> int:
    mine = (note.c.id == identifier, note.c.principal.in_(scope))
    columns = (note.c.principal, note.c.turn, note.c.journaled, note.c.body)
    row = connection.execute(select(*columns).where(*mine)).one_or_none()
    if row is None:
        return 0
    words.append(row.body)
    payload = journal.payload
    if row.journaled is not None:
        told = (payload.c.principal == row.principal, payload.c.seq == row.journaled)
        connection.execute(delete(payload).where(*told))
    if row.turn is not None:
        events = select(journal.event.c.seq).where(
            journal.event.c.principal == row.principal, journal.event.c.turn == row.turn
        )
        body = payload.c.body.contains(f'"note":"{identifier.hex}"', autoescape=True)
        connection.execute(delete(payload).where(payload.c.principal == row.principal, payload.c.seq.in_(events), body))
    connection.execute(update(note).where(note.c.superseded_by == identifier).values(superseded_by=None))
    connection.execute(delete(note).where(*mine))
    memory_index.remove(connection, scope, str(identifier))
    return 1


def _turn(connection: Connection, scope: Sequence[UUID], identifier: UUID, words: list[str]) -> int:
    columns = (turn_record.c.principal, turn_record.c.seq, turn_record.c.folded, turn_record.c.messages)
    mine = (turn_record.c.turn == identifier, turn_record.c.principal.in_(scope))
    row = connection.execute(select(*columns).where(*mine)).one_or_none()
    if row is None:
        return 0
    owner = row.principal
    words += [str(s.get("text", "")) for s in checkpoints.messages_in(connection, row) if s["role"] == "user"]
    archiving.thaw(connection, owner, row.seq)
    nothing = to_json([{"role": "user", "text": FORGOTTEN}, {"role": "assistant", "text": FORGOTTEN}])
    folded = FORGOTTEN if row.folded else None
    connection.execute(
        update(turn_record).where(*mine).values(messages=nothing, folded=folded, tokens=8, searchable=True)
    )
    facts.write(connection, owner, row.seq, ())
    commitments.forget_turn(connection, identifier)
    _made_in(connection, scope, identifier, words)
    memory_index.remove(connection, scope, str(identifier))
    event_, payload = journal.event, journal.payload
    of_turn = select(event_.c.seq).where(event_.c.principal == owner, event_.c.turn == identifier)
    first = connection.execute(of_turn.order_by(event_.c.seq).limit(1)).scalar()
    connection.execute(delete(payload).where(payload.c.principal == owner, payload.c.seq.in_(of_turn)))
    messages = connection.execute(
        select(inbox.inbox.c.id, inbox.inbox.c.envelope).where(inbox.inbox.c.turn == identifier)
    )
    for message in messages.all():
        _message(connection, message.id, message.envelope)
        if first is not None:
            before = (payload.c.seq < int(first), payload.c.seq > int(first) - EVENTS_BEFORE)
            about = payload.c.body.contains(f'"message":"{message.id.hex}"', autoescape=True)
            connection.execute(delete(payload).where(payload.c.principal == owner, *before, about))
        _replies(connection, message.id)
    return 1


def _made_in(connection: Connection, scope: Sequence[UUID], turn: UUID, words: list[str]) -> None:
    """What a turn asked of somebody and set itself to do, in words that need not be those of the turn."""
    asked, opened = approvals.approval, tasks.task
    mine = (asked.c.turn == turn, asked.c.principal.in_(scope), asked.c.status != "pending")
    words += connection.execute(select(asked.c.text).where(*mine)).scalars()
    connection.execute(update(asked).where(*mine).values(request="{}"))
    closed = (opened.c.turn == turn, opened.c.principal.in_(scope), opened.c.closed_at.is_not(None))
    words += connection.execute(select(opened.c.goal).where(*closed)).scalars()
    blank = {"goal": FORGOTTEN, "plan": "[]", "check_command": "", "evidence": "", "report": ""}
    connection.execute(update(opened).where(*closed).values(**blank))


def _message(connection: Connection, identifier: UUID, envelope: str) -> None:
    blank = without_words(envelope)
    connection.execute(update(inbox.inbox).where(inbox.inbox.c.id == identifier).values(envelope=to_json(blank)))
    changed = changes.message_change.c.message == identifier
    connection.execute(update(changes.message_change).where(changed).values(before="", after="", untold=False))
    file = attachments.attachment.c.inbox == identifier
    connection.execute(update(attachments.attachment).where(file).values(name=FORGOTTEN, reference=""))


def without_words(envelope: str) -> dict[str, Any]:
    """An envelope as it is stored, without what was said in it."""
    found: dict[str, Any] = json.loads(envelope)
    return {**found, "text": FORGOTTEN, "context": "", "attachments": []}


def _replies(connection: Connection, message: UUID) -> None:
    """What has gone out already; what has not is still to be said."""
    mine = (outbox.outbox.c.inbox == message, outbox.outbox.c.status.in_(("sent", "dead")))
    for row in connection.execute(select(outbox.outbox.c.number, outbox.outbox.c.content).where(*mine)).all():
        content = {"text": FORGOTTEN, "reply": json.loads(row.content).get("reply") or {}}
        this = outbox.outbox.c.number == row.number
        connection.execute(update(outbox.outbox).where(this).values(content=to_json(content)))


def _imported(connection: Connection, scope: Sequence[UUID], identifier: UUID, words: list[str]) -> int:
    """Its key stays: brought along once more, it is not taken again."""
    mine = (imported.c.id == identifier, imported.c.principal.in_(scope), imported.c.text != "")
    text = connection.execute(select(imported.c.text).where(*mine)).scalar()
    if text is None:
        return 0
    words.append(text)
    connection.execute(update(imported).where(*mine).values(text="", channel=""))
    memory_index.remove(connection, scope, str(identifier))
    return 1


REPEATED: tuple[tuple[Table, Sequence[str]], ...] = (
    (turn_record, ("messages", "folded")),
    (inbox.inbox, ("envelope",)),
    (outbox.outbox, ("content",)),
    (approvals.approval, ("text", "request")),
    (commitments.commitment, ("body",)),
    (tasks.task, ("goal", "plan", "check_command", "evidence", "report")),
    (schedules.schedule, ("note",)),
    (changes.message_change, ("before", "after")),
    (attachments.attachment, ("name", "reason")),
    (checkpoints.generation, ("note",)),
    (facts.folding, ("reason",)),
)
"""Where words are said again: answers that showed them, turns that looked for them, what was made of them."""
FINDABLE: tuple[tuple[str, Table, str], ...] = (("note", note, "body"), ("imported", imported, "text"))
"""What repeats them and has an entry of its own in the index: kind, table, column."""


def _sweep(connection: Connection, scope: Sequence[UUID], words: Sequence[str]) -> None:
    """Blank the very same words wherever else they stand. Reads all that is somebody's, which forgetting may."""
    for said in dict.fromkeys(each.strip() for each in words):
        if len(said) < SWEPT_CHARACTERS:
            continue
        quoted = to_json(said)[1:-1]
        forms = list(dict.fromkeys((quoted, said, " ".join(said.split()))))
        archiving.thaw_holding(connection, scope, forms)
        _index_again(connection, scope, quoted)
        facts.blank(connection, scope, said)
        schedules.remove_saying(connection, scope, said)
        for kind, where, name in FINDABLE:
            _blank_findable(connection, scope, kind, where, name, said)
        # As it stands in JSON, as it was said, and as it is kept on one line.
        for form in forms:
            for where, names in REPEATED:
                for name in names:
                    column = where.c[name]
                    mine = (where.c.principal.in_(scope), column.contains(form, autoescape=True))
                    blank = func.replace(column, form, FORGOTTEN)
                    connection.execute(update(where).where(*mine).values({name: blank}))
        payload = journal.payload
        mine = (payload.c.principal.in_(scope), payload.c.body.contains(quoted, autoescape=True))
        connection.execute(delete(payload).where(*mine))


def _blank_findable(
    connection: Connection, scope: Sequence[UUID], kind: str, where: Table, name: str, said: str
) -> None:
    column = where.c[name]
    mine = (where.c.principal.in_(scope), column.contains(said, autoescape=True))
    columns = (where.c.id, where.c.principal, where.c.at, column.label("words"))
    for row in connection.execute(select(*columns).where(*mine)).all():
        left = row.words.replace(said, FORGOTTEN)
        memory_index.remove(connection, scope, str(row.id))
        connection.execute(update(where).where(where.c.id == row.id).values({name: left}))
        memory_index.index(connection, row.principal, kind, str(row.id), left, int(row.at))


def _index_again(connection: Connection, scope: Sequence[UUID], quoted: str) -> None:
    """Turns that hold the words are searchable again once these are gone."""
    mine = (turn_record.c.principal.in_(scope), turn_record.c.messages.contains(quoted, autoescape=True))
    for row in connection.execute(
        select(turn_record.c.principal, turn_record.c.seq, turn_record.c.turn).where(*mine)
    ).all():
        memory_index.remove(connection, scope, str(row.turn))
        this = (turn_record.c.principal == row.principal, turn_record.c.seq == row.seq)
        connection.execute(update(turn_record).where(*this).values(searchable=False))


# Asked first, where a person did not name exactly what is to go


def ask(
    connection: Connection, owner: UUID, targets: Sequence[Target], *, key: str, at: Place, asked: UUID, message: UUID
) -> Approval:
    """Ask whether to forget exactly these."""
    request = {"targets": [[one.kind, one.id.hex] for one in targets]}
    return approvals.request(
        connection, key=key, kind=APPROVAL_KIND, principal=owner, at=at, request=request,
        text=texts.forget_these(targets), asked=asked, message=message,
    )  # fmt: skip


def decided(connection: Connection, found: Approval, decider: Decider | None) -> str:
    """Act on the answer, in the transaction that records it."""
    if found.status != "approved":
        return texts.NOTHING_FORGOTTEN
    if not approvals.consume(connection, found.id, found.request):
        return ""
    targets = [Target(kind, UUID(hex=identifier)) for kind, identifier in found.request["targets"]]
    by = decider.display_name if decider else "the command line"
    gone = forget(connection, found.principal, targets, by=by)
    _question(connection, found)
    return texts.forgot(gone.to_json())


def _question(connection: Connection, found: Approval) -> None:
    """The words by which it was asked what to forget."""
    vague = texts.FORGET_WHAT_WAS_LISTED
    quoted, vaguely = to_json(found.text)[1:-1], to_json(vague)[1:-1]
    asked = outbox.outbox
    row = connection.execute(select(asked.c.inbox).where(asked.c.id == found.question)).one_or_none()
    told = (asked.c.principal == found.principal, asked.c.content.contains(quoted, autoescape=True))
    connection.execute(update(asked).where(*told).values(content=func.replace(asked.c.content, quoted, vaguely)))
    approval = approvals.approval
    connection.execute(update(approval).where(approval.c.id == found.id).values(text=vague))
    payload = journal.payload
    about = payload.c.body.contains(quoted, autoescape=True)
    connection.execute(delete(payload).where(payload.c.principal == found.principal, about))
    if row is not None and row.inbox is not None:
        message = inbox.get(connection, row.inbox)
        if message is not None:
            _message(connection, message.id, message.envelope)
            _replies(connection, message.id)
            mine = payload.c.body.contains(f'"message":"{message.id.hex}"', autoescape=True)
            connection.execute(delete(payload).where(payload.c.principal == found.principal, mine))
