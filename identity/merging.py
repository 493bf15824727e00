"""Merging two users, and taking it back.

Nothing is copied and no journal is joined: the absorbed user's principal is marked as merged into the one that is kept,
and everything that asks whose something is (intake, memory, the sandbox) follows that mark. A merge and its undoing are
one transaction each, which takes both leases in UUID order and gives them back, so a crash leaves the old or the new.

The done rows of ``merge`` are a forest; ``principal.merged_into`` is each one's root, kept current here alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Text,
    bindparam,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy import update as update_of
from sqlmodel import Field, SQLModel

from identity import reach, users
from identity.names import harmless
from identity.users import User
from workspace_store import (
    approvals,
    checkpoints,
    commitments,
    context_heads,
    inbox,
    inbox_counts,
    journal,
    memory,
    principal,
    tasks,
)
from workspace_store.database import now_us, table
from workspace_store.journal import Event
from workspace_store.principal import in_order
from workspace_store.principal import principal as principals

OBJECTION_SECONDS = 24 * 3600
UNLINK_SECONDS = 7 * 24 * 3600
FOLDER_CHARACTERS = 40

State = Literal["waiting", "done", "objected", "undone"]

MOVED: Mapping[str, Any] = {"approvals": approvals, "tasks": tasks, "commitments": commitments}
"""Whose open rows go with a merge, and come back with its undoing."""


class MergeRow(SQLModel, table=True):
    """``folder``: where the absorbed workspace is seen, under ``/workspace/merged``. ``moved``: what an undoing gives
    back (JSON)."""

    __tablename__ = "merge"
    __table_args__ = (
        Index("merge_due", "due_at", sqlite_where=text("state = 'waiting'"),
              postgresql_where=text("state = 'waiting'")),
        Index("merge_kept", "kept"),
        Index("merge_absorbed", "absorbed"),
    )  # fmt: skip

    id: UUID = Field(primary_key=True)
    kept: UUID
    absorbed: UUID
    folder: str
    state: str
    asked_by: UUID | None = None
    by_link: bool = False
    asked_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    due_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    done_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    undone_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    moved: str = Field(sa_column=Column(Text, nullable=False))


merge = table(MergeRow)


class MergeRefused(Exception):
    """Two users cannot be merged, or a merge not undone; the text says why."""


@dataclass(frozen=True)
class Merge:
    """``due_at``: when it completes by itself, unless somebody objects before."""

    id: UUID
    kept: UUID
    absorbed: UUID
    folder: str
    state: State
    asked_by: UUID | None
    by_link: bool
    asked_at: int
    due_at: int
    done_at: int | None
    moved: str


_COLUMNS = [merge.c[name] for name in Merge.__dataclass_fields__]
_WAITING: ColumnElement[str] = literal_column("'waiting'")
_DUE = select(*_COLUMNS).where(merge.c.state == _WAITING, merge.c.due_at <= bindparam("now")).order_by(merge.c.due_at)
_GET = select(*_COLUMNS).where(merge.c.id == bindparam("of"))
_OF = select(*_COLUMNS).where(or_(merge.c.kept == bindparam("of"), merge.c.absorbed == bindparam("of")))
_LOCK = (
    update_of(principals)
    .where(principals.c.id == bindparam("of"))
    .values(epoch=principals.c.epoch)
    .returning(principals.c.owner)
)


@dataclass(frozen=True)
class Holdings:
    """What a user has: what a merge would give to somebody else."""

    files: int
    bytes: int
    notes: int
    turns: int
    waiting: int

    @property
    def empty(self) -> bool:
        return not (self.files or self.notes or self.turns)


def holdings(connection: Connection, user: UUID) -> Holdings:
    """All that belongs to a user and to those merged into them."""
    return _holdings(connection, principal.scope(connection, user))


def holdings_alone(connection: Connection, user: UUID) -> Holdings:
    """What belongs to a user without anybody merged into them."""
    return _holdings(connection, [user])


def _holdings(connection: Connection, owners: Sequence[UUID]) -> Holdings:
    files = size = notes = turns = waiting = 0
    for owner in owners:
        for newest in checkpoints.generations(connection, owner, 1):
            files, size = files + newest.files, size + newest.bytes
        notes += memory.count(connection, owner)
        turns += checkpoints.count_turns(connection, owner)
        waiting += inbox_counts.waiting(connection, owner)
    return Holdings(files, size, notes, turns, waiting)


def check(connection: Connection, kept: UUID, absorbed: UUID) -> tuple[User, User]:
    """The two users, if they can be merged. Raises MergeRefused."""
    found = [users.get(connection, one) for one in (kept, absorbed)]
    if found[0] is None or found[1] is None:
        raise MergeRefused("one of them is no user")
    if kept == absorbed:
        raise MergeRefused("they are the same user")
    for one in found:
        if one is not None and one.merged_into is not None:
            raise MergeRefused(f"{one.id} is merged into {one.merged_into} already")
        if one is not None and one.blocked:
            # Or whoever is blocked would speak again as the other one.
            raise MergeRefused(f"{one.id} is blocked; unblock them first")
    return found[0], found[1]


def ask(
    connection: Connection, kept: UUID, absorbed: UUID, *, actor: UUID | None, by_link: bool, seconds: int
) -> Merge:
    """Write down that two users are to be merged in ``seconds``; ``attempt`` does it. Raises MergeRefused."""
    _, lost = check(connection, kept, absorbed)
    waiting = [one for user in (kept, absorbed) for one in of(connection, user) if one.state == "waiting"]
    for other in waiting:
        if actor is not None and by_link:
            raise MergeRefused("another merge of one of them is waiting")
        _set(connection, other, state="objected")
    now = now_us()
    asked = Merge(
        uuid4(), kept, absorbed, folder_for(connection, kept, lost), "waiting", actor, by_link, now,
        now + seconds * 1_000_000, None, "{}",
    )  # fmt: skip
    connection.execute(merge.insert().values(**asked.__dict__, undone_at=None))
    for user in (kept, absorbed):
        users.record(connection, actor, user, "merge.asked", _detail(asked))
    return asked


def attempt(connection: Connection, asked: Merge) -> bool:
    """Merge now; False: a turn runs for one of them, try again when it has ended. Raises MergeRefused."""
    kept, lost = check(connection, asked.kept, asked.absorbed)
    if not _hold(connection, asked.kept, asked.absorbed) or inbox.unfinished(connection, asked.absorbed):
        return False
    moved: dict[str, Any] = {"role": kept.role}
    inbox.move_pending(connection, asked.absorbed, asked.kept)
    for name, store in MOVED.items():
        moved[name] = [one.hex for one in store.move(connection, asked.absorbed, asked.kept)]
    family = principal.scope(connection, asked.absorbed)
    _set_root(connection, family, asked.kept)
    role = _higher(kept.role, lost.role)
    if role != kept.role:
        users.set_role(connection, asked.kept, role, asked.asked_by)
    _set(connection, asked, state="done", done_at=now_us(), moved=json.dumps(moved))
    _tell(connection, asked, "identity.linked", "merge.done", asked.asked_by)
    return True


def undo(connection: Connection, absorbed: UUID, actor: UUID | None) -> Merge | None:
    """Make two users of them again; None: a turn runs for one of them, try again when it has ended.

    What came from each goes back to each; what was done since stays with the one that was kept. Raises MergeRefused.
    """
    done = _merged(connection, absorbed)
    lost = users.get(connection, absorbed)
    if done is None or lost is None or lost.merged_into is None:
        raise MergeRefused("that user is not merged into another")
    if users.is_blocked(connection, lost.merged_into):
        raise MergeRefused(f"{lost.merged_into} is blocked; unblock them first")
    if not _hold(connection, lost.merged_into, absorbed) or inbox.unfinished(connection, lost.merged_into):
        return None
    _set(connection, done, state="undone", undone_at=now_us())
    # What was read there of the other's notes goes back with them.
    context_heads.drop(connection, lost.merged_into)
    family = _family(connection, absorbed)
    _set_root(connection, [absorbed], None)
    _set_root(connection, [one for one in family if one != absorbed], absorbed)
    said = reach.lose(connection, lost.merged_into, users.identities(connection, absorbed))
    # What was asked, scheduled or delivered there meanwhile is answered there too: it goes with the person.
    theirs = inbox.places(connection, said)
    waiting = set(said) | inbox.pending_at(connection, lost.merged_into, theirs)
    inbox.move_pending(connection, lost.merged_into, absorbed, only=waiting)
    approvals.move_asked_at(connection, lost.merged_into, absorbed, theirs)
    moved = json.loads(done.moved)
    for name, store in MOVED.items():
        store.move_back(connection, [UUID(one) for one in moved.get(name, ())], absorbed)
    kept = users.get(connection, done.kept)
    before = moved.get("role")
    if kept is not None and before not in (None, kept.role) and lost.role == kept.role:
        users.set_role(connection, kept.id, before, actor)
    _tell(connection, done, "identity.unlinked", "merge.undone", actor)
    return done


def object_to(connection: Connection, asked: Merge, actor: UUID | None) -> None:
    """Somebody does not want a merge that waits."""
    _set(connection, asked, state="objected")
    for user in (asked.kept, asked.absorbed):
        users.record(connection, actor, user, "merge.objected", _detail(asked))


def get(connection: Connection, identifier: UUID) -> Merge | None:
    row = connection.execute(_GET, {"of": identifier}).one_or_none()
    return None if row is None else Merge(**row._mapping)


def of(connection: Connection, user: UUID) -> list[Merge]:
    """Every merge a user had part in, the newest first."""
    found = [Merge(**row._mapping) for row in connection.execute(_OF, {"of": user})]
    return sorted(found, key=lambda one: one.asked_at, reverse=True)


def due(connection: Connection) -> list[Merge]:
    """What is to be done now."""
    return [Merge(**row._mapping) for row in connection.execute(_DUE, {"now": now_us()})]


def mounts(connection: Connection, kept: UUID) -> list[tuple[UUID, str]]:
    """(absorbed principal, folder) of every workspace that is seen in the one that is kept, oldest first."""
    found: list[Merge] = []
    waiting = [kept]
    while waiting:
        parent = waiting.pop()
        children = [one for one in of(connection, parent) if one.state == "done" and one.kept == parent]
        found += children
        waiting += [one.absorbed for one in children]
    named: dict[str, UUID] = {}
    for one in sorted(found, key=lambda one: (one.done_at or 0, one.absorbed)):
        # Two may have had the same name before they met here.
        named[one.folder if one.folder not in named else f"{one.folder}-{one.absorbed.hex[:8]}"] = one.absorbed
    return [(absorbed, folder) for folder, absorbed in named.items()]


def met(connection: Connection, one: UUID, other: UUID) -> bool:
    """Whether two users were to be merged before, whatever became of it."""
    return any({merged.kept, merged.absorbed} == {one, other} for merged in of(connection, one))


def parent(connection: Connection, absorbed: UUID) -> UUID | None:
    """Whom a user was merged into directly."""
    done = _merged(connection, absorbed)
    return None if done is None else done.kept


def _merged(connection: Connection, absorbed: UUID) -> Merge | None:
    return next((one for one in of(connection, absorbed) if one.state == "done" and one.absorbed == absorbed), None)


def _hold(connection: Connection, *both: UUID) -> bool:
    """Take both leases in UUID order, to be given back by this transaction's end; False: somebody has one of them."""
    owners = [connection.execute(_LOCK, {"of": one}).scalar_one() for one in sorted(both)]
    if any(owner is not None for owner in owners):
        return False
    connection.execute(update_of(principals).where(principals.c.id.in_(both)).values(epoch=principals.c.epoch + 1))
    return True


def _family(connection: Connection, root: UUID) -> list[UUID]:
    return [root, *(absorbed for absorbed, _ in mounts(connection, root))]


def _set_root(connection: Connection, family: Sequence[UUID], root: UUID | None) -> None:
    if family:
        connection.execute(update_of(principals).where(in_order(principals.c.id.in_(family))).values(merged_into=root))


def _set(connection: Connection, one: Merge, **values: object) -> None:
    connection.execute(update_of(merge).where(merge.c.id == one.id).values(**values))


def _tell(connection: Connection, one: Merge, event: str, record: str, actor: UUID | None) -> None:
    for user in (one.kept, one.absorbed):
        users.record(connection, actor, user, record, _detail(one))
        body = {"kept": one.kept.hex, "absorbed": one.absorbed.hex, "folder": one.folder}
        journal.append(connection, user, [Event(event, body)], under=None)


def _detail(one: Merge) -> dict[str, Any]:
    return {"merge": one.id.hex, "kept": one.kept.hex, "absorbed": one.absorbed.hex}


def _higher(*roles: str) -> str:
    return min(roles, key=("admin", "member", "guest").index)


def folder_for(connection: Connection, kept: UUID, lost: User) -> str:
    """A name for the absorbed workspace that is no other's, made of letters and digits."""
    kinds = "".join(c if c.isascii() and c.isalnum() else "-" for c in harmless(lost.display_name).lower())
    base = "-".join(filter(None, kinds.split("-")))[:FOLDER_CHARACTERS] or "user"
    taken = {folder for _, folder in mounts(connection, kept)}
    return f"{base}-{lost.id.hex[:8]}" if base in taken else base
