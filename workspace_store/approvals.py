"""Approvals: durable questions to a person, bound by hash to the exact request, answered once, consumed once.

Whoever needs one calls ``request`` in a transaction of its own: the row, the question in the outbox (with buttons) and
``approval.requested`` are written together. A person's answer comes by command, button, reaction, mail or command line;
all of them meet in ``router.actions.answer``, which calls ``decide`` here and queues the turn that goes on (where the
request ``resumes``). Whoever asked then calls ``consume`` with the request as it would be carried out: True once.

A kind's owner may act inside the deciding transaction: ``hooks`` maps a kind to a function that is given the
connection, the decided approval and who decided, and may add a sentence for the person. They are listed in
``nightporter.approval_hooks``.

    approvals.request(connection, key=f"egress:{turn}:{host}", kind="egress.host", principal=owner, turn=turn,
                      at=place, request={"host": host}, text=f"reach `{host}` from the sandbox",
                      choices=(APPROVE, FOR_AN_HOUR, ALWAYS, DENY), under=lease)

Nothing here decides by itself; a row never goes back to ``pending``, whatever is restored or undone.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import Connection, func, select, update

from workspace_store import journal, outbox, questions, short_codes, texts
from workspace_store import principal as principals
from workspace_store.approval_rows import (
    ALWAYS,
    APPROVE,
    CODE_CHARACTERS,
    DENY,
    FOR_AN_HOUR,
    PENDING,
    QUESTION,
    SIMPLE,
    Approval,
    ApprovalRow,
    Choice,
    Decider,
    Place,
    Verdict,
    approval,
    canonical,
    find,
    get,
    hash_request,
    move,
    move_asked_at,
    move_back,
    of_question,
    one,
    place_of,
    plain,
    read,
    waiting,
)
from workspace_store.database import database_now_us, storable, to_json
from workspace_store.journal import Event
from workspace_store.principal import Lease
from workspace_store.tenancy import Tenancy

__all__ = [
    "ALWAYS", "APPROVE", "DENY", "FOR_AN_HOUR", "QUESTION", "SIMPLE", "Approval", "ApprovalRow", "BadEdit", "Choice",
    "Decider", "Decision", "Hooks", "Kind", "Place", "Revised", "Verdict", "amend", "any_due", "approval", "buttons",
    "consume", "decide", "done", "expire_due", "find", "get", "hash_request", "may_answer", "move", "move_asked_at",
    "move_back", "of_question", "place_of", "request", "waiting",
]  # fmt: skip

Role = Literal["asked", "admin"]

ASK_SECONDS = 7 * 86400
USE_SECONDS = 86400
"""How long what was approved may be consumed."""
TEXT_CHARACTERS = 1000
"""A question is one message on every platform."""


Hook = Callable[[Connection, Approval, Decider | None], str]
"""Acts inside the deciding transaction, on an approval or a denial; what it returns is told to the person."""


class BadEdit(ValueError):
    """What a person wrote instead of what was asked cannot be that; the text says what to write."""


@dataclass(frozen=True)
class Revised:
    """What is approved instead of what was asked: another request, and the words for it."""

    request: object
    text: str


Edit = Callable[[Approval, str], Revised]
"""Reads what a person wants instead. Raises BadEdit."""


@dataclass(frozen=True)
class Kind:
    """What a kind of approval does with its answer, and how what it asks can be changed by whoever approves it."""

    decided: Hook | None = None
    edit: Edit | None = None

    def __call__(self, connection: Connection, found: Approval, decider: Decider | None) -> str:
        return self.decided(connection, found, decider) if self.decided else ""


Hooks = Mapping[str, Hook | Kind]
"""By kind."""

Outcome = Literal["decided", "already", "expired", "unknown", "not_yours", "no_such_choice", "needs_token", "bad_edit"]


@dataclass(frozen=True)
class Decision:
    """What became of an answer; ``approval`` as it is now. ``told``: the hook's sentence."""

    outcome: Outcome
    approval: Approval | None = None
    told: str = ""


def request(
    connection: Connection,
    *,
    key: str,
    kind: str,
    principal: UUID,
    at: Place,
    request: object,
    text: str,
    choices: Sequence[Choice] = SIMPLE,
    role: Role = "asked",
    asked: UUID | None = None,
    turn: UUID | None = None,
    message: UUID | None = None,
    resumes: bool = False,
    seconds: float = ASK_SECONDS,
    under: Lease | Tenancy | None = None,
    posted: bool = False,
) -> Approval:
    """Ask a person; the same ``key`` again is the same approval, as it stands, and asks nobody a second time.

    ``text`` says what it is about and completes "May I …?"; ``asked`` may answer (default: who spoke at the place, else
    the principal's user), with ``role="admin"`` any admin may, and nobody else. ``message``: the inbox row whose
    answers the question is one of. ``resumes``: the answer starts a turn in the same place. Journaled with
    ``turn``, under the right given. ``posted``: the caller puts the question into the outbox by itself.
    """
    there = one(connection, approval.c.key == key)
    if there is not None:
        return there
    identifier, now = uuid4(), database_now_us(connection)
    code, token = _fresh_code(connection), short_codes.random(CODE_CHARACTERS)
    text = storable(text.strip()[:TEXT_CHARACTERS])
    where = at.address
    question = None
    if not posted:
        shown = texts.question(text, choices, f"{code}-{token}" if where.channel == "email" else code)
        question = outbox.queue(
            connection,
            key=f"approval:{identifier.hex}",
            principal=principal,
            turn=turn,
            inbox=message,
            to=where,
            content={"text": shown, "buttons": buttons(code, choices), "reply": dict(at.reply)},
        )
    # For a closed principal nobody is asked: it waits for the end of the block, or expires.
    question = question or uuid4()
    connection.execute(
        approval.insert().values(
            id=identifier, key=key, code=code, token=token, principal=principal,
            asked=asked or at.speaker or principal, role=role, kind=kind, request=canonical(request),
            request_hash=hash_request(request), text=text,
            choices=to_json([asdict(choice) for choice in choices]), turn=turn, resumes=resumes, **asdict(where),
            reply=to_json(dict(at.reply)), question=question, status="pending", requested_at=now,
            expires_at=now + int(seconds * 1e6), decided_by_name="",
        )
    )  # fmt: skip
    return _asked(connection, identifier, under)


def amend(
    connection: Connection, identifier: UUID, *, request: object, text: str, under: Lease | Tenancy | None = None
) -> Approval | None:
    """Ask for something else instead, before it was answered; None: too late.

    What was asked cannot be approved any more: there is a new code, a new hash and a new question in the same place,
    and the old question says so.
    """
    was = get(connection, identifier)
    code, token = _fresh_code(connection), short_codes.random(CODE_CHARACTERS)
    text = storable(text.strip()[:TEXT_CHARACTERS])
    changed = connection.execute(
        update(approval)
        .where(
            approval.c.id == identifier,
            approval.c.status == "pending",
            approval.c.expires_at > database_now_us(connection),
        )
        .values(code=code, token=token, request=canonical(request), request_hash=hash_request(request), text=text)
    )
    if changed.rowcount != 1:
        return None
    to, reply = was.place.address, dict(was.place.reply)
    old = {"text": texts.replaced(was.text), "edits": was.question.hex, "reply": reply}
    shown = texts.question(text, was.choices, f"{code}-{token}" if to.channel == "email" else code)
    new = {"text": shown, "buttons": buttons(code, was.choices), "reply": reply}
    said: dict[str, Any] = {"principal": was.principal, "turn": was.turn, "inbox": None, "to": to}
    outbox.queue(connection, key=f"approval:{identifier.hex}:until:{code}", content=old, **said)
    question = outbox.queue(connection, key=f"approval:{identifier.hex}:{code}", content=new, **said) or uuid4()
    connection.execute(update(approval).where(approval.c.id == identifier).values(question=question))
    return _asked(connection, identifier, under)


def _asked(connection: Connection, identifier: UUID, under: Lease | Tenancy | None) -> Approval:
    """Journal what is asked now."""
    found = get(connection, identifier)
    body = {"approval": found.id.hex, "code": found.code, "kind": found.kind, "text": found.text,
            "request": found.request_hash}  # fmt: skip
    journal.append(connection, found.principal, [Event("approval.requested", body)], under=under, turn=found.turn)
    return found


def decide(
    connection: Connection,
    code: str | UUID,
    decider: Decider | None,
    verdict: Verdict,
    *,
    via: str,
    choice: str = "",
    needs_token: bool = False,
    hooks: Hooks,
    instead: str = "",
) -> Decision:
    """Answer an approval, once; anything that does not decide it says why.

    ``decider`` None: the operator of this machine at the command line. ``choice``: one of those offered with this
    verdict, the first one when empty. ``needs_token``: only the code of the question's own mail counts. ``instead``:
    what is approved instead of what was asked, in the approver's words; it is bound by a hash of its own, and what was
    asked can no longer be done.
    """
    found = find(connection, code)
    if found is None:
        return Decision("unknown")
    if not may_answer(connection, found, decider):
        return Decision("not_yours", found)
    if found.status != "pending":
        return Decision("expired" if found.status == "expired" else "already", found)
    now = database_now_us(connection)
    if found.expires_at <= now:
        return Decision("expired", _expire(connection, found, now))
    if needs_token and not (isinstance(code, str) and secrets.compare_digest(plain(code), plain(found.mail_code))):
        return Decision("needs_token", found)
    chosen = next((c for c in found.choices if c.verdict == verdict and choice.lower() in ("", c.name)), None)
    if chosen is None:
        return Decision("no_such_choice", found)
    approved = verdict == "approve"
    try:
        revised = _revised(found, instead, hooks) if approved and instead else {}
    except BadEdit as error:
        return Decision("bad_edit", found, str(error))
    changed = connection.execute(
        update(approval)
        .where(approval.c.id == found.id, approval.c.status == "pending")
        .values(
            status="approved" if approved else "denied",
            decided_at=now,
            decided_by=decider.id if decider else None,
            decided_by_name=decider.display_name if decider else "",
            decided_via=via,
            choice=chosen.name,
            # What is approved late may still be used.
            expires_at=max(found.expires_at, now + USE_SECONDS * 1_000_000),
            **revised,
        )
    )
    now_is = get(connection, found.id)
    if changed.rowcount != 1:
        return Decision("already", now_is)
    _record(connection, now_is, verdict, was=found if revised else None)
    hook = hooks.get(now_is.kind)
    told = hook(connection, now_is, decider) if hook else ""
    # What it is about may have been forgotten by it.
    return Decision("decided", get(connection, found.id) if hook else now_is, told)


def _revised(found: Approval, instead: str, hooks: Hooks) -> dict[str, Any]:
    """The columns of what is approved instead. Raises BadEdit."""
    kind = hooks.get(found.kind)
    if not isinstance(kind, Kind) or kind.edit is None:
        raise BadEdit(texts.NOT_EDITABLE)
    revised = kind.edit(found, instead)
    text = storable(revised.text.strip()[:TEXT_CHARACTERS])
    return {"request": canonical(revised.request), "request_hash": hash_request(revised.request), "text": text}


def consume(connection: Connection, identifier: UUID, request: object, *, under: Lease | Tenancy | None = None) -> bool:
    """Use an approval for exactly this request: True once, while it is approved and has not expired."""
    now = database_now_us(connection)
    changed = connection.execute(
        update(approval)
        .where(
            approval.c.id == identifier,
            approval.c.request_hash == hash_request(request),
            approval.c.status == "approved",
            approval.c.expires_at > now,
        )
        .values(status="consumed", consumed_at=now)
    )
    if changed.rowcount != 1:
        return False
    found = get(connection, identifier)
    event = Event("approval.consumed", {"approval": identifier.hex, "code": found.code})
    journal.append(connection, found.principal, [event], under=under, turn=found.turn)
    return True


def expire_due(connection: Connection, limit: int = 100) -> list[Approval]:
    """Close what nobody answered in time; its buttons go."""
    now = database_now_us(connection)
    rows = connection.execute(
        select(approval).where(PENDING, approval.c.expires_at <= now).order_by(approval.c.expires_at).limit(limit)
    )
    # In one order, as whoever locks several principals (``principal.in_order``).
    due = sorted((read(row) for row in rows), key=lambda found: found.principal)
    return [_expire(connection, found, now) for found in due]


def any_due(connection: Connection) -> bool:
    """Whether ``expire_due`` has anything to do: a look that takes no lock."""
    due = select(approval.c.id).where(PENDING, approval.c.expires_at <= database_now_us(connection)).limit(1)
    return connection.execute(due).first() is not None


def pending(connection: Connection, kind: str) -> int:
    """How many of a kind wait for an answer."""
    found = select(func.count()).select_from(approval).where(PENDING, approval.c.kind == kind)
    return int(connection.execute(found).scalar_one())


def may_answer(connection: Connection, found: Approval, decider: Decider | None) -> bool:
    """In a room whoever asked for the work may answer, unless they are a guest, and any admin."""
    if decider is None:
        return True
    # Who was asked may be merged into the one who answers; in a room, nothing says so but that.
    if found.role == "asked" and found.asked in principals.scope(connection, decider.id):
        return decider.role != "guest"
    return decider.role == "admin" and (found.role == "admin" or principals.kind(connection, found.principal) == "room")


def _expire(connection: Connection, found: Approval, now: int) -> Approval:
    connection.execute(
        update(approval)
        .where(approval.c.id == found.id, approval.c.status == "pending")
        .values(status="expired", decided_at=now)
    )
    now_is = get(connection, found.id)
    if now_is.status == "expired":
        _record(connection, now_is, "expired")
    return now_is


def _record(connection: Connection, found: Approval, verdict: str, *, was: Approval | None = None) -> None:
    """Journal what was decided, and let the question say so instead of offering buttons. ``was``: what was asked, where
    something else was approved."""
    body = {
        "approval": found.id.hex, "code": found.code, "kind": found.kind, "verdict": verdict, "choice": found.choice,
        "by": found.decided_by.hex if found.decided_by else None, "via": found.decided_via,
    }  # fmt: skip
    if was is not None:
        body |= {"asked": was.request_hash, "request": found.request_hash, "text": found.text}
    journal.append(connection, found.principal, [Event("approval.decided", body)], under=None, turn=found.turn)
    if found.kind == QUESTION:
        questions.settle_messages(connection, found)
    told = texts.decided(found.phrase, verdict, done(found), found.decided_by_name, found.decided_at or 0)
    questions.say_decided(connection, found, told)


def done(found: Approval) -> str:
    """What was decided, in a word or two; empty where nothing was chosen."""
    return next((choice.done for choice in found.choices if choice.name == found.choice), "")


def buttons(code: str, choices: Sequence[Choice]) -> list[dict[str, str]]:
    """The buttons of a question, as a reply's content has them."""
    return [{"action": c.verdict, "value": f"{code} {c.name}", "label": c.label} for c in choices]


def _fresh_code(connection: Connection) -> str:
    while True:
        code = short_codes.random(CODE_CHARACTERS)
        if connection.execute(select(approval.c.id).where(approval.c.code == code)).first() is None:
            return code
