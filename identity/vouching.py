"""Linking without a code, where a platform vouches: a member's mail address in a trusted Slack team.

Only what the platform said when it was first asked about an identity counts. An address that appears in a profile later
moves nothing, or whoever could edit a profile could become somebody else.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, update

from identity import merging, users
from identity.access import email_key
from identity.users import Claim, Known, identity

NONE = "-"
"""The platform was asked and vouches for no address."""
UNCHECKED = frozenset({"", "unchecked", "admin"})
"""Proofs of a mail identity that nobody's own server has checked."""


def to_join(connection: Connection, claim: Claim) -> Known | None:
    """The verified mail identity that an identity is to be joined with; None: nothing is to be done."""
    if claim.vouched_mail in ("", NONE):
        return None
    known = users.identity_of(connection, claim)
    address = email_key(claim.vouched_mail)
    if known is not None and known.vouched_mail not in (None, address):
        return None
    mail = users.identity_of(connection, Claim("email", "", address))
    if mail is None or mail.proof in UNCHECKED or mail.user is None:
        return None
    owner = users.by_identity(connection, Claim(*mail.key))
    if owner is None or owner.blocked or _was_taken_apart(connection, owner.id, claim):
        return None
    user = users.by_identity(connection, claim)
    if user is not None and (user.blocked or user.id == owner.id or merging.met(connection, user.id, owner.id)):
        return None
    return mail


def remember(connection: Connection, claim: Claim) -> None:
    """Keep what the platform said at first sight; a later word changes nothing."""
    if claim.vouched_mail:
        address = NONE if claim.vouched_mail == NONE else email_key(claim.vouched_mail)
        first = (*users.key_of(claim), identity.c.vouched_mail.is_(None))
        connection.execute(update(identity).where(*first).values(vouched_mail=address))


def _was_taken_apart(connection: Connection, owner: UUID, claim: Claim) -> bool:
    """Whether somebody has unlinked the two before: then only people link them again."""
    name = Known(claim.channel, claim.account, claim.external_id).name
    unlinked = users.events_of_kind(connection, owner, "identity.unlinked")
    return any(event.detail.get("identity") == name for event in unlinked)
