"""What administrators do to users, in chat and on the command line alike: each a transaction, recorded, undoable.

``actor`` is the admin, or None for the command line. Every function raises ``AdminRefused`` with the reason where it
does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, select
from sqlalchemy import update as update_of

from identity import merging, pairing, reach, users
from identity.merging import Holdings, Merge, MergeRefused
from identity.pairing import Waiting
from identity.settings import ExternalIdentity
from identity.users import Claim, Known, User, user_account
from workspace_store import journal, outbox, principal
from workspace_store.journal import Event

ROLES = ("admin", "member")
PREFIX_CHARACTERS = 4


class AdminRefused(Exception):
    """Nothing was done; the text says why and what to do."""


@dataclass(frozen=True)
class Details:
    """All there is to say of a user."""

    user: User
    identities: list[Known]
    holdings: Holdings
    absorbed: list[tuple[UUID, str]]
    events: list[users.IdentityEvent]


@dataclass(frozen=True)
class Plan:
    """What a merge would move."""

    kept: Details
    absorbed: Details
    folder: str


def resolve(connection: Connection, name: str) -> tuple[User, bool]:
    """The user a name means, and whether it was completed: a UUID or the beginning of one, or a channel's name."""
    name = name.strip().strip("`<>")
    found = users.find(connection, name)
    if found is not None:
        return found, False
    prefix = name.replace("-", "").lower()
    if len(prefix) >= PREFIX_CHARACTERS and len(prefix) < 32 and all(c in "0123456789abcdef" for c in prefix):
        least, most = UUID(prefix.ljust(32, "0")), UUID(prefix.ljust(32, "f"))
        query = select(user_account.c.id).where(user_account.c.id >= least, user_account.c.id <= most).limit(2)
        rows = connection.execute(query).all()
        if len(rows) > 1:
            raise AdminRefused(f"{name} is the beginning of more than one UUID; write more of it")
        if rows and (user := users.get(connection, rows[0].id)) is not None:
            return user, True
    raise AdminRefused(
        f"nobody is called {name}; write a UUID, its beginning, or a name such as email:ann@example.org, slack:T1/U1, "
        "telegram:42 or local:owner"
    )


def details(connection: Connection, user: User) -> Details:
    return Details(
        user,
        users.identities(connection, user.id),
        merging.holdings(connection, user.id),
        merging.mounts(connection, user.id),
        users.events(connection, user.id, 20),
    )


def plan(connection: Connection, kept: User, absorbed: User) -> Plan:
    """What ``merge`` would do. Raises AdminRefused where it could not."""
    try:
        merging.check(connection, kept.id, absorbed.id)
    except MergeRefused as error:
        raise AdminRefused(str(error)) from error
    folder = merging.folder_for(connection, kept.id, absorbed)
    return Plan(details(connection, kept), details(connection, absorbed), folder)


def merge(connection: Connection, kept: User, absorbed: User, actor: UUID | None) -> Merge:
    """Merge; ``waiting`` where a turn runs for one of them: it is done as soon as that has ended."""
    try:
        asked = merging.ask(connection, kept.id, absorbed.id, actor=actor, by_link=False, seconds=0)
        merging.attempt(connection, asked)
    except MergeRefused as error:
        raise AdminRefused(str(error)) from error
    done = merging.get(connection, asked.id)
    assert done is not None
    return done


def unmerge(connection: Connection, absorbed: User, actor: UUID | None) -> Merge:
    try:
        undone = merging.undo(connection, absorbed.id, actor)
    except MergeRefused as error:
        raise AdminRefused(str(error)) from error
    if undone is None:
        raise AdminRefused("a turn is running for them; try again when it is done, or stop it first")
    return undone


def link(connection: Connection, user: User, name: str, actor: UUID | None) -> Known:
    """Vouch for an identity: whoever comes by it is that user."""
    try:
        parsed = ExternalIdentity.parse(name.strip().strip("`<>"))
    except ValueError as error:
        raise AdminRefused(str(error)) from error
    _not_merged(user)
    there = users.identity_named(connection, str(parsed))
    if there is not None:
        raise AdminRefused(f"{there.name} is {there.user}'s; merge the two, or unlink it there first")
    account = parsed.account or _account(connection, parsed.channel)
    claim = Claim(parsed.channel, account, parsed.external_id, "", "admin")
    known = users.add_identity(connection, user.id, claim)
    pairing.forget(connection, claim)
    _linked(connection, user.id, known, "identity.linked", actor)
    return known


def unlink(connection: Connection, name: str, actor: UUID | None) -> tuple[User, Known]:
    """Whoever comes by that identity afterwards is a stranger."""
    known = users.identity_named(connection, name.strip().strip("`<>"))
    user = users.by_identity(connection, Claim(*known.key)) if known is not None else None
    if known is None or user is None:
        raise AdminRefused(f"nobody is known as {name}; `users show` lists the names of a user")
    users.remove_identity(connection, known)
    for owner in {user.id, known.user or user.id}:
        reach.lose(connection, owner, [known])
    _linked(connection, user.id, known, "identity.unlinked", actor)
    return user, known


def set_role(connection: Connection, user: User, role: str, actor: UUID | None) -> None:
    _not_merged(user)
    if role not in ROLES:
        raise AdminRefused(f"{role} is no role; write admin or member")
    if user.role == "admin" and role != "admin":
        _keep_one_admin(connection, user)
    users.set_role(connection, user.id, role, actor)


def block(connection: Connection, user: User, actor: UUID | None) -> None:
    """Stop what runs for a user, end their sandbox, take back what was not sent, and answer nothing more."""
    _not_merged(user)
    if user.id == actor:
        raise AdminRefused("you cannot block yourself")
    if user.role == "admin" and user.moved_to is None:
        _keep_one_admin(connection, user)
    connection.execute(update_of(user_account).where(user_account.c.id == user.id).values(blocked=True))
    for owner in principal.scope(connection, user.id):
        principal.close(connection, owner)
        outbox.withdraw(connection, owner)
    users.record(connection, actor, user.id, "user.blocked", {})


def unblock(connection: Connection, user: User, actor: UUID | None) -> None:
    _not_merged(user)
    if user.moved_to is not None:
        raise AdminRefused(f"{user.id} has moved to {user.moved_to}; `users return` is for one who never arrived there")
    connection.execute(update_of(user_account).where(user_account.c.id == user.id).values(blocked=False))
    for owner in principal.scope(connection, user.id):
        principal.reopen(connection, owner)
    users.record(connection, actor, user.id, "user.unblocked", {})


def waiting(connection: Connection, code: str) -> Waiting:
    found = pairing.find(connection, code)
    if found is None:
        raise AdminRefused("no such code waits; it may have run out after an hour")
    return found


def _not_merged(user: User) -> None:
    if user.merged_into is not None:
        raise AdminRefused(f"{user.id} is merged into {user.merged_into}; name that one, or unmerge them first")


def _keep_one_admin(connection: Connection, user: User) -> None:
    if all(admin.id == user.id for admin in users.admins(connection)):
        raise AdminRefused("that is the last administrator; make another one first")


def _account(connection: Connection, channel: str) -> str:
    """The account of a channel that has one alone: the Telegram bot, as those know it who came by it."""
    if channel != "telegram":
        return ""
    accounts = users.accounts(connection, channel)
    if len(accounts) != 1:
        raise AdminRefused("nobody has written to the Telegram bot yet; let them write first, and approve their code")
    return accounts[0]


def _linked(connection: Connection, user: UUID, known: Known, kind: str, actor: UUID | None) -> None:
    users.record(connection, actor, user, kind, {"identity": known.name, "proof": known.proof})
    journal.append(connection, user, [Event(kind, {"identity": known.name})], under=None)
