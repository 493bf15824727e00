"""What an approval is as a row, and how one is found; ``workspace_store.approvals`` asks, decides and consumes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, Protocol
from uuid import UUID

from sqlalchemy import BigInteger, Column, Connection, Index, Text, and_, or_, select, text, update
from sqlmodel import Field, SQLModel

from workspace_store import inbox
from workspace_store import principal as principals
from workspace_store.database import database_now_us, storable, table
from workspace_store.outbox import Address

Verdict = Literal["approve", "deny"]

QUESTION = "question"
"""The kind of what the agent asks its person: not whether it may, but something only they can say."""
CODE_CHARACTERS = 8
PENDING = text("approval.status = 'pending'")


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
    def phrase(self) -> str:
        """What is asked, as a sentence."""
        return self.text if self.kind == QUESTION else f"May I {self.text}?"

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


def waiting(connection: Connection, principal: UUID | None, decider: Decider | None = None) -> list[Approval]:
    """What waits for an answer, oldest first: about a principal, for this decider; of all where both are None."""
    query = select(approval).where(PENDING, approval.c.expires_at > database_now_us(connection))
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
    return [read(row) for row in connection.execute(query.order_by(approval.c.requested_at).limit(100))]


def find(connection: Connection, code: str | UUID) -> Approval | None:
    """An approval by its code as people type it (also the one of a mail), or its id."""
    if isinstance(code, UUID):
        return one(connection, approval.c.id == code)
    try:
        return one(connection, approval.c.id == UUID(code))
    except ValueError:
        return one(connection, approval.c.code == plain(code)[:CODE_CHARACTERS])


def hash_request(request: object) -> str:
    """Hex SHA-256 of a request's canonical JSON."""
    return sha256(canonical(request).encode()).hexdigest()


def canonical(request: object) -> str:
    """JSON with sorted keys: the same request is the same text."""
    return storable(json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":")))


def get(connection: Connection, identifier: UUID) -> Approval:
    """An approval that is there. Raises LookupError."""
    found = one(connection, approval.c.id == identifier)
    if found is None:
        raise LookupError(f"there is no approval {identifier}")
    return found


def of_question(connection: Connection, reply: UUID) -> Approval | None:
    """The approval that an outbox reply asks about."""
    return one(connection, approval.c.question == reply)


def place_of(connection: Connection, principal: UUID) -> Place | None:
    """Where a principal was last heard: the message being worked on, else the newest; None: never."""
    row = inbox.where_heard(connection, principal)
    if row is None:
        return None
    return Place(Address(*row.strand), inbox.reply_later(row), row.actor)


def plain(code: str) -> str:
    """A code as it was typed, in one form."""
    return "".join(filter(str.isalnum, code)).upper()


def one(connection: Connection, condition: Any) -> Approval | None:
    row = connection.execute(select(approval).where(condition)).one_or_none()
    return None if row is None else read(row)


def read(row: Any) -> Approval:
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


def move_asked_at(connection: Connection, owner: UUID, to: UUID, places: Collection[tuple[str, str, str]]) -> None:
    """Let what is open and was asked at these (channel, account, conversation) be asked of whoever speaks there now."""
    open_ = and_(approval.c.principal == owner, approval.c.status.in_(("pending", "approved")))
    rows = connection.execute(
        select(approval.c.id, approval.c.channel, approval.c.account, approval.c.conversation).where(open_)
    )
    found = [row.id for row in rows if (row.channel, row.account, row.conversation) in places]
    if found:
        connection.execute(update(approval).where(approval.c.id.in_(found)).values(principal=to))
        connection.execute(update(approval).where(approval.c.id.in_(found), approval.c.asked == owner).values(asked=to))


def move_back(connection: Connection, identifiers: Sequence[UUID], to: UUID) -> None:
    """Give back those of them that still wait."""
    mine = (approval.c.id.in_(identifiers), approval.c.status.in_(("pending", "approved")))
    connection.execute(update(approval).where(*mine).values(principal=to, asked=to))
