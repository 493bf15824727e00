"""Linking by code: what a person says at one channel, carries to another, and confirms at both.

A code is 60 bits, lives 15 minutes, is stored as a digest and used once. Saying it at the other channel binds it to
both sides and joins nothing; only when each side has confirmed it, they become one. Five wrong codes of one sender
within an hour, and nothing of theirs counts for an hour.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Column, Connection, Index, Text, bindparam, delete, select, update
from sqlmodel import Field, SQLModel

from identity import codes, merging, pairing, reach, users
from identity.merging import OBJECTION_SECONDS, UNLINK_SECONDS, Merge
from identity.users import Claim, Known, User
from workspace_store import journal, principal
from workspace_store.database import now_us, table
from workspace_store.journal import Event

CODE_SECONDS = 15 * 60
WRONG_TRIES = 5
LOCK_SECONDS = 3600


class LinkCodeRow(SQLModel, table=True):
    """``maker`` has said ``/link``; ``other`` (a claim, JSON) has said the code; ``merge``: what came of it.

    ``maker_place`` and ``other_place`` (JSON) say where each is told.
    """

    __tablename__ = "link_code"
    __table_args__ = (Index("link_code_of", "maker"), Index("link_code_ends", "expires_at"))

    id: UUID = Field(primary_key=True)
    digest: str = Field(unique=True)
    maker: UUID
    maker_identity: UUID
    maker_place: str = Field(sa_column=Column(Text, nullable=False))
    maker_confirmed: bool = False
    other: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    other_place: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    other_confirmed: bool = False
    made_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    expires_at: int = Field(sa_column=Column(BigInteger, nullable=False))
    used_at: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    merge: UUID | None = None


class CodeGuessRow(SQLModel, table=True):
    """Wrong codes of a sender: how many since when, and until when nothing of theirs counts."""

    __tablename__ = "code_guess"

    sender: str = Field(primary_key=True)
    wrong: int
    since: int = Field(sa_column=Column(BigInteger, nullable=False))
    locked_until: int = Field(sa_column=Column(BigInteger, nullable=False))


link_code = table(LinkCodeRow)
code_guess = table(CodeGuessRow)


@dataclass(frozen=True)
class Link:
    """A code that stands, or was used. Places are JSON objects."""

    id: UUID
    digest: str
    maker: UUID
    maker_identity: UUID
    maker_place: dict[str, Any]
    maker_confirmed: bool
    other: Claim | None
    other_place: dict[str, Any] | None
    other_confirmed: bool
    expires_at: int
    used_at: int | None
    merge: UUID | None


Why = Literal["wrong", "locked", "own", "done"]


@dataclass(frozen=True)
class Refused:
    """``wrong`` also covers codes that have run out, were used, or are bound to somebody else.

    ``own``: the maker has said it; ``done``: one of its sides confirms what is done.
    """

    why: Why


@dataclass(frozen=True)
class Heard:
    """A code was said or confirmed by one of its sides."""

    link: Link
    side: Literal["maker", "other"]

    @property
    def complete(self) -> bool:
        return self.link.maker_confirmed and self.link.other_confirmed


@dataclass(frozen=True)
class Joined:
    """They are one (``merge`` None: the identity was nobody's before), or a merge of two users is waiting."""

    user: UUID
    merge: Merge | None = None


_BY_DIGEST = select(link_code).where(link_code.c.digest == bindparam("of"))
_GUESSES = select(code_guess).where(code_guess.c.sender == bindparam("by"))


def make(connection: Connection, user: User, known: UUID, place: dict[str, Any]) -> str:
    """A new code for somebody who is known; an earlier one that nobody has said yet is void."""
    now = now_us()
    connection.execute(delete(link_code).where(link_code.c.expires_at <= now, link_code.c.used_at.is_(None)))
    unsaid = (link_code.c.maker == user.id, link_code.c.other.is_(None), link_code.c.used_at.is_(None))
    connection.execute(delete(link_code).where(*unsaid))
    code = codes.make(codes.LINK_CHARACTERS)
    connection.execute(
        link_code.insert().values(
            id=uuid4(), digest=codes.digest(code), maker=user.id, maker_identity=known, maker_place=json.dumps(place),
            maker_confirmed=False, other=None, other_place=None, other_confirmed=False, made_at=now,
            expires_at=now + CODE_SECONDS * 1_000_000, used_at=None, merge=None,
        )
    )  # fmt: skip
    users.record(connection, user.id, user.id, "link.code_made", {})
    return code


def say(connection: Connection, claim: Claim, user: User | None, typed: str, place: dict[str, Any]) -> Heard | Refused:
    """Somebody says a code at their channel: it is bound to them, if it is good and nobody else's."""
    found = _look_up(connection, claim, typed)
    if isinstance(found, Refused):
        return found
    if user is not None and user.id == root(connection, found.maker):
        return Refused("own")
    if found.other is not None:
        return Heard(found, "other") if _same(found.other, claim) else _count_wrong(connection, claim)
    bound = replace(found, other=claim, other_place=place)
    connection.execute(
        update(link_code)
        .where(link_code.c.id == found.id)
        .values(other=json.dumps(asdict(claim)), other_place=json.dumps(place))
    )
    users.record(connection, user.id if user else None, found.maker, "link.code_said", {"channel": claim.channel})
    return Heard(bound, "other")


def confirm(connection: Connection, claim: Claim, user: User | None, typed: str) -> Heard | Refused:
    """One side confirms a code that both have said; in either order."""
    used = find(connection, typed)
    if used is not None and used.used_at is not None and side_of(connection, used, claim, user) is not None:
        return Refused("done")
    found = _look_up(connection, claim, typed)
    if isinstance(found, Refused):
        return found
    side = side_of(connection, found, claim, user)
    if side is None or found.other is None:
        return _count_wrong(connection, claim)
    found = replace(
        found,
        maker_confirmed=found.maker_confirmed or side == "maker",
        other_confirmed=found.other_confirmed or side == "other",
    )
    connection.execute(
        update(link_code)
        .where(link_code.c.id == found.id)
        .values(maker_confirmed=found.maker_confirmed, other_confirmed=found.other_confirmed)
    )
    users.record(connection, user.id if user else None, found.maker, "link.confirmed", {"side": side})
    return Heard(found, side)


def side_of(connection: Connection, link: Link, claim: Claim, user: User | None) -> Literal["maker", "other"] | None:
    """Which side of a code somebody is."""
    if link.other is not None and _same(link.other, claim):
        return "other"
    return "maker" if user is not None and user.id == root(connection, link.maker) else None


def vouched(
    connection: Connection, mail: Known, claim: Claim, mail_place: dict[str, Any], place: dict[str, Any]
) -> Link:
    """A link that needs no code: a platform vouches that a verified mail identity and a claim are one person's."""
    assert mail.user is not None
    assert mail.id is not None
    now = now_us()
    link = Link(
        uuid4(), f"vouched {uuid4().hex}", root(connection, mail.user), mail.id, mail_place, True, claim, place, True,
        now, None, None,
    )  # fmt: skip
    connection.execute(
        link_code.insert().values(
            id=link.id, digest=link.digest, maker=link.maker, maker_identity=link.maker_identity,
            maker_place=json.dumps(mail_place), maker_confirmed=True, other=json.dumps(asdict(claim)),
            other_place=json.dumps(place), other_confirmed=True, made_at=now, expires_at=now, used_at=None, merge=None,
        )
    )  # fmt: skip
    users.record(connection, None, link.maker, "link.vouched", {"channel": claim.channel})
    return link


def void(connection: Connection, typed: str) -> None:
    """Make a code worthless that others may have read."""
    stands = (link_code.c.digest == codes.digest(codes.typed(typed)), link_code.c.used_at.is_(None))
    connection.execute(delete(link_code).where(*stands))


def join(connection: Connection, link: Link) -> Joined:
    """Make one of both sides of a code that both have confirmed. Raises MergeRefused."""
    assert link.other is not None
    maker = users.get(connection, root(connection, link.maker))
    other = users.by_identity(connection, link.other)
    assert maker is not None
    if other is None:
        _take_in(connection, maker.id, link.other)
        joined = Joined(maker.id)
    elif other.id == maker.id:
        joined = Joined(maker.id)
    else:
        joined = _merge(connection, maker, other)
    connection.execute(
        update(link_code)
        .where(link_code.c.id == link.id)
        .values(used_at=now_us(), merge=joined.merge.id if joined.merge else None)
    )
    return joined


def _take_in(connection: Connection, user: UUID, claim: Claim) -> None:
    known = users.add_identity(connection, user, claim)
    pairing.forget(connection, claim)
    users.record(connection, user, user, "identity.linked", {"identity": known.name, "proof": claim.proof})
    journal.append(connection, user, [Event("identity.linked", {"identity": known.name})], under=None)


def _merge(connection: Connection, maker: User, other: User) -> Joined:
    """The one with something in it is kept, of two such the maker; those wait, unless an admin is one of them."""
    empty = {one.id: merging.holdings(connection, one.id).empty for one in (maker, other)}
    kept, absorbed = (other, maker) if empty[maker.id] and not empty[other.id] else (maker, other)
    at_once = any(empty.values()) or "admin" in (maker.role, other.role)
    asked = merging.ask(
        connection, kept.id, absorbed.id, actor=maker.id, by_link=True, seconds=0 if at_once else OBJECTION_SECONDS
    )
    if at_once:
        merging.attempt(connection, asked)
    return Joined(kept.id, merging.get(connection, asked.id))


def find(connection: Connection, typed: str) -> Link | None:
    """A code, used or not, for whoever has a right to know: the caller checks their side."""
    row = connection.execute(_BY_DIGEST, {"of": codes.digest(codes.typed(typed))}).one_or_none()
    return None if row is None else _link(row)


def of_merge(connection: Connection, merge: UUID) -> Link | None:
    """The code a merge came from."""
    row = connection.execute(select(link_code).where(link_code.c.merge == merge)).one_or_none()
    return None if row is None else _link(row)


def undoable(connection: Connection, user: UUID) -> list[Known]:
    """Identities that were linked to a user in the last seven days and can be unlinked, the newest first."""
    since = now_us() - UNLINK_SECONDS * 1_000_000
    used = (link_code.c.maker.in_(bindparam("owners", expanding=True)), link_code.c.used_at > since)
    owners = principal.scope(connection, user)
    rows = connection.execute(select(link_code).where(*used).order_by(link_code.c.used_at.desc()), {"owners": owners})
    known = {(one.channel, one.account, one.external_id): one for one in users.identities(connection, user)}
    found = []
    for link in map(_link, rows):
        if link.other is not None:
            one = known.get((link.other.channel, link.other.account, link.other.external_id))
            found += [one] if one is not None and one not in found else []
    return found


def unlink(connection: Connection, user: User, known: Known) -> bool:
    """Take one of ``undoable`` away from its user; False: a turn runs, try again. Raises MergeRefused."""
    if known.user is not None and known.user != user.id:
        child = known.user
        # The merge to undo is the one right below this user, whatever was merged into that one before.
        while (up := merging.parent(connection, child)) not in (None, user.id):
            child = up
        return merging.undo(connection, child, user.id) is not None
    if len(users.identities(connection, user.id)) < 2:
        raise merging.MergeRefused("it is the only way you have to reach me")
    users.remove_identity(connection, known)
    reach.lose(connection, user.id, [known])
    users.record(connection, user.id, user.id, "identity.unlinked", {"identity": known.name})
    journal.append(connection, user.id, [Event("identity.unlinked", {"identity": known.name})], under=None)
    return True


def _look_up(connection: Connection, claim: Claim, typed: str) -> Link | Refused:
    """A code that stands. The same is done and said whatever is wrong with it, so that it tells nothing."""
    digest = codes.digest(codes.typed(typed))
    row = connection.execute(_BY_DIGEST, {"of": digest}).one_or_none()
    guesses = connection.execute(_GUESSES, {"by": _sender(claim)}).one_or_none()
    now = now_us()
    stored = row.digest if row is not None else codes.digest("")
    stands = row is not None and row.expires_at > now and row.used_at is None
    if guesses is not None and guesses.locked_until > now:
        return Refused("locked")
    if not (hmac.compare_digest(stored, digest) and stands):
        return _count_wrong(connection, claim)
    return _link(row)


def _count_wrong(connection: Connection, claim: Claim) -> Refused:
    now, sender = now_us(), _sender(claim)
    row = connection.execute(_GUESSES, {"by": sender}).one_or_none()
    recent = row is not None and row.since > now - LOCK_SECONDS * 1_000_000
    wrong = (row.wrong if row is not None and recent else 0) + 1
    locked = now + LOCK_SECONDS * 1_000_000 if wrong >= WRONG_TRIES else 0
    values = {"wrong": 0 if locked else wrong, "since": row.since if row is not None and recent else now}
    if row is None:
        connection.execute(code_guess.insert().values(sender=sender, locked_until=locked, **values))
    else:
        connection.execute(
            update(code_guess).where(code_guess.c.sender == sender).values(locked_until=locked, **values)
        )
    return Refused("locked" if locked else "wrong")


def _sender(claim: Claim) -> str:
    return f"{claim.channel}:{claim.account}:{claim.external_id}"


def _same(one: Claim, other: Claim) -> bool:
    return _sender(one) == _sender(other)


def root(connection: Connection, user: UUID) -> UUID:
    """Whose a user is now."""
    found = users.get(connection, user)
    return found.merged_into if found is not None and found.merged_into is not None else user


def _link(row: Any) -> Link:
    return Link(
        row.id, row.digest, row.maker, row.maker_identity, json.loads(row.maker_place), row.maker_confirmed,
        Claim(**json.loads(row.other)) if row.other else None,
        json.loads(row.other_place) if row.other_place else None,
        row.other_confirmed, row.expires_at, row.used_at, row.merge,
    )  # fmt: skip
