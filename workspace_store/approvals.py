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

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, Text, and_, or_, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store import inbox, journal, outbox, texts
from workspace_store import principal as principals
from workspace_store.database import database_now_us, storable, table, to_json
from workspace_store.journal import Event
from workspace_store.outbox import Address
from workspace_store.principal import Lease
from workspace_store.tenancy import Tenancy

Status = Literal["pending", "approved", "denied", "expired", "consumed"]
Verdict = Literal["approve", "deny"]
Role = Literal["asked", "admin"]

ASK_SECONDS = 7 * 86400
USE_SECONDS = 86400
"""How long what was approved may be consumed."""
TEXT_CHARACTERS = 1000
"""A question is one message on every platform."""
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Without what people mistake for something else; eight of them are 39 bits."""
CODE_CHARACTERS = 8


class ApprovalRow(SQLModel, table=True):
    """A question to a person. ``role``: who may answer: ``asked`` (in a room an admin too), or any ``admin``. Times in
    microseconds."""

    __tablename__ = "approval"
    __table_args__ = (
        Index("approval_waiting", "principal", "requested_at", sqlite_where=text("status = 'pending'"),
              postgresql_where=text("status = 'pending'")),
        Index("approval_due", "expires_at", sqlite_where=text("status = 'pending'"),
              postgresql_where=text("status = 'pending'")),
        Index("approval_question", "question"),
        Index("approval_of", "principal"),
    )  # fmt: skip

    id: UUID = Field(primary_key=True)
    key: str = Field(unique=True)
    code: str = Field(unique=True)
    token: str
    principal: UUID = Field(foreign_key="principal.id")
    asked: UUID
    role: str
    kind: str
    request: str = Field(sa_column=Column(Text, nullable=False))
    request_hash: str
    text: str = Field(sa_column=Column(Text, nullable=False))
    choices: str = Field(sa_column=Column(Text, nullable=False))
    turn: UUID | None = None
    resumes: bool = False
    channel: str
    account: str
    conversation: str
    thread: str
    reply: str = Field(sa_column=Column(Text, nullable=False))
    question: UUID
    status: str
    requested_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    expires_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    decided_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    decided_by: UUID | None = None
    decided_by_name: str = ""
    decided_via: str | None = None
    choice: str | None = None
    consumed_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))


approval = table(ApprovalRow)


@dataclass(frozen=True)
class Choice:
    """An answer that is offered: its word after ``/approve ID``, what its button says, which verdict it is, and what is
    said when it was chosen."""

    name: str
    label: str
    verdict: Verdict
    done: str


APPROVE = Choice("once", "Approve", "approve", "Approved")
FOR_AN_HOUR = Choice("hour", "Approve for 1 hour", "approve", "Approved for 1 hour")
ALWAYS = Choice("always", "Always approve", "approve", "Approved for always")
DENY = Choice("deny", "Deny", "deny", "Denied")
SIMPLE = (APPROVE, DENY)


@dataclass(frozen=True)
class Place:
    """Where to ask: an address, what its channel wants back with a reply (``Envelope.reply``), and who spoke there."""

    address: Address
    reply: Mapping[str, Any]
    speaker: UUID | None = None


@dataclass(frozen=True)
class Approval:
    """An approval as read. ``code``: its short name for people; ``mail_code``: the one that mail has to bring."""

    id: UUID
    code: str
    token: str
    principal: UUID
    asked: UUID
    role: str
    kind: str
    request: Any
    request_hash: str
    text: str
    choices: tuple[Choice, ...]
    turn: UUID | None
    resumes: bool
    place: Place
    question: UUID
    status: str
    requested_at: int
    expires_at: int
    decided_at: int | None
    decided_by: UUID | None
    decided_by_name: str
    decided_via: str | None
    choice: str | None
    consumed_at: int | None

    @property
    def mail_code(self) -> str:
        return f"{self.code}-{self.token}"


class Decider(Protocol):
    """Who answers; an ``identity.users.User`` is one."""

    @property
    def id(self) -> UUID: ...
    @property
    def display_name(self) -> str: ...
    @property
    def role(self) -> str: ...


Hook = Callable[[Connection, Approval, Decider | None], str]
"""Acts inside the deciding transaction, on an approval or a denial; what it returns is told to the person."""
Hooks = Mapping[str, Hook]
"""By kind."""

Outcome = Literal["decided", "already", "expired", "unknown", "not_yours", "no_such_choice", "needs_token"]


@dataclass(frozen=True)
class Decision:
    """What became of an answer; ``approval`` as it is now. ``told``: the hook's sentence."""

    outcome: Outcome
    approval: Approval | None = None
    told: str = ""


def hash_request(request: object) -> str:
    """Hex SHA-256 of a request's canonical JSON."""
    return sha256(canonical(request).encode()).hexdigest()


def canonical(request: object) -> str:
    """JSON with sorted keys: the same request is the same text."""
    return storable(json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":")))


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
) -> Approval:
    """Ask a person; the same ``key`` again is the same approval, as it stands, and asks nobody a second time.

    ``text`` says what it is about and completes "May I …?"; ``asked`` may answer (default: who spoke at the place, else
    the principal's user), with ``role="admin"`` any admin may, and nobody else. ``message``: the inbox row whose
    answers the question is one of. ``resumes``: the answer starts a turn in the same place. Journaled with
    ``turn``, under the right given.
    """
    there = _one(connection, approval.c.key == key)
    if there is not None:
        return there
    identifier, now = uuid4(), database_now_us(connection)
    code, token = _fresh_code(connection), _random_code()
    text = storable(text.strip()[:TEXT_CHARACTERS])
    where = at.address
    shown = texts.question(text, choices, f"{code}-{token}" if where.channel == "email" else code)
    question = outbox.queue(
        connection,
        key=f"approval:{identifier.hex}",
        principal=principal,
        turn=turn,
        inbox=message,
        to=where,
        content={"text": shown, "buttons": _buttons(code, choices), "reply": dict(at.reply)},
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
    code, token = _fresh_code(connection), _random_code()
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
    new = {"text": shown, "buttons": _buttons(code, was.choices), "reply": reply}
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
) -> Decision:
    """Answer an approval, once; anything that does not decide it says why.

    ``decider`` None: the operator of this machine at the command line. ``choice``: one of those offered with this
    verdict, the first one when empty. ``needs_token``: only the code of the question's own mail counts.
    """
    found = find(connection, code)
    if found is None:
        return Decision("unknown")
    if not _may(connection, found, decider):
        return Decision("not_yours", found)
    if found.status != "pending":
        return Decision("expired" if found.status == "expired" else "already", found)
    now = database_now_us(connection)
    if found.expires_at <= now:
        return Decision("expired", _expire(connection, found, now))
    if needs_token and not (isinstance(code, str) and secrets.compare_digest(_plain(code), _plain(found.mail_code))):
        return Decision("needs_token", found)
    chosen = next((c for c in found.choices if c.verdict == verdict and choice.lower() in ("", c.name)), None)
    if chosen is None:
        return Decision("no_such_choice", found)
    approved = verdict == "approve"
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
        )
    )
    now_is = get(connection, found.id)
    if changed.rowcount != 1:
        return Decision("already", now_is)
    _record(connection, now_is, verdict)
    hook = hooks.get(now_is.kind)
    return Decision("decided", now_is, hook(connection, now_is, decider) if hook else "")


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
        select(approval).where(_PENDING, approval.c.expires_at <= now).order_by(approval.c.expires_at).limit(limit)
    )
    return [_expire(connection, _read(row), now) for row in rows.all()]


def any_due(connection: Connection) -> bool:
    """Whether ``expire_due`` has anything to do: a look that takes no lock."""
    due = select(approval.c.id).where(_PENDING, approval.c.expires_at <= database_now_us(connection)).limit(1)
    return connection.execute(due).first() is not None


def waiting(connection: Connection, principal: UUID | None, decider: Decider | None = None) -> list[Approval]:
    """What waits for an answer, oldest first: about a principal, for this decider; of all where both are None."""
    query = select(approval).where(_PENDING, approval.c.expires_at > database_now_us(connection))
    mine = []
    if principal is not None:
        mine.append(approval.c.principal == principal)
    if decider is not None:
        they = principals.scope(connection, decider.id)
        mine.append(and_(approval.c.role == "asked", approval.c.asked.in_(they)))
        if decider.role == "admin":
            mine.append(approval.c.role == "admin")
    if mine:
        query = query.where(or_(*mine))
    return [_read(row) for row in connection.execute(query.order_by(approval.c.requested_at).limit(100))]


def find(connection: Connection, code: str | UUID) -> Approval | None:
    """An approval by its code as people type it (also the one of a mail), or its id."""
    if isinstance(code, UUID):
        return _one(connection, approval.c.id == code)
    try:
        return _one(connection, approval.c.id == UUID(code))
    except ValueError:
        return _one(connection, approval.c.code == _plain(code)[:CODE_CHARACTERS])


def get(connection: Connection, identifier: UUID) -> Approval:
    """An approval that is there. Raises LookupError."""
    found = _one(connection, approval.c.id == identifier)
    if found is None:
        raise LookupError(f"there is no approval {identifier}")
    return found


def of_question(connection: Connection, reply: UUID) -> Approval | None:
    """The approval that an outbox reply asks about."""
    return _one(connection, approval.c.question == reply)


def place_of(connection: Connection, principal: UUID) -> Place | None:
    """Where a principal was last heard: the message being worked on, else the newest; None: never."""
    row = inbox.where_heard(connection, principal)
    if row is None:
        return None
    return Place(Address(*row.strand), inbox.reply_later(row), row.actor)


_PENDING = text("approval.status = 'pending'")


def _may(connection: Connection, found: Approval, decider: Decider | None) -> bool:
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


def _record(connection: Connection, found: Approval, verdict: str) -> None:
    """Journal what was decided, and let the question say so instead of offering buttons."""
    body = {
        "approval": found.id.hex, "code": found.code, "kind": found.kind, "verdict": verdict, "choice": found.choice,
        "by": found.decided_by.hex if found.decided_by else None, "via": found.decided_via,
    }  # fmt: skip
    journal.append(connection, found.principal, [Event("approval.decided", body)], under=None, turn=found.turn)
    outbox.queue(
        connection,
        key=f"approval:{found.id.hex}:decided",
        principal=found.principal,
        turn=None,
        inbox=None,
        to=found.place.address,
        content={
            "text": texts.decided(found.text, verdict, done(found), found.decided_by_name, found.decided_at or 0),
            "edits": found.question.hex,
            "reply": dict(found.place.reply),
        },
    )


def done(found: Approval) -> str:
    """What was decided, in a word or two; empty where nothing was chosen."""
    return next((choice.done for choice in found.choices if choice.name == found.choice), "")


def _buttons(code: str, choices: Sequence[Choice]) -> list[dict[str, str]]:
    return [{"action": c.verdict, "value": f"{code} {c.name}", "label": c.label} for c in choices]


def _plain(code: str) -> str:
    """A code as it was typed, in one form."""
    return "".join(filter(str.isalnum, code)).upper()


def _random_code() -> str:
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_CHARACTERS))


def _fresh_code(connection: Connection) -> str:
    while True:
        code = _random_code()
        if connection.execute(select(approval.c.id).where(approval.c.code == code)).first() is None:
            return code


def _one(connection: Connection, condition: Any) -> Approval | None:
    row = connection.execute(select(approval).where(condition)).one_or_none()
    return None if row is None else _read(row)


def _read(row: Any) -> Approval:
    place = Place(Address(row.channel, row.account, row.conversation, row.thread), json.loads(row.reply))
    same = ("id", "code", "token", "principal", "asked", "role", "kind", "request_hash", "text", "turn", "resumes",
            "question", "status", "requested_at", "expires_at", "decided_at", "decided_by", "decided_by_name",
            "decided_via", "choice", "consumed_at")  # fmt: skip
    return Approval(
        **{name: getattr(row, name) for name in same},
        request=json.loads(row.request),
        choices=tuple(Choice(**choice) for choice in json.loads(row.choices)),
        place=place,
    )


def move(connection: Connection, owner: UUID, to: UUID) -> list[UUID]:
    """Let what waits for an answer, or was approved and not used yet, be asked of another: the two are one person."""
    open_ = and_(approval.c.principal == owner, approval.c.status.in_(("pending", "approved")))
    found = [row.id for row in connection.execute(select(approval.c.id).where(open_))]
    if found:
        connection.execute(update(approval).where(approval.c.id.in_(found)).values(principal=to, asked=to))
    return found


def move_back(connection: Connection, identifiers: Sequence[UUID], to: UUID) -> None:
    """Give back those of them that still wait."""
    mine = (approval.c.id.in_(identifiers), approval.c.status.in_(("pending", "approved")))
    connection.execute(update(approval).where(*mine).values(principal=to, asked=to))
