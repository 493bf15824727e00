"""Who may speak to the agent: proof first, then the access policy for the unknown.

Unproven senders are nobody: they are not answered and nothing of theirs is stored. Proven strangers are let in
(``open``), met with silence (``allowlist``), or wait for an admin (``pairing``, see ``identity.pairing``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from unicodedata import normalize

import idna
from sqlalchemy import Connection

from identity import users
from identity.users import GUEST, Claim, Known, User

Policy = Literal["pairing", "allowlist", "open"]
RoomPolicy = Literal["members", "open", "off"]

OWNER = "owner"


@dataclass(frozen=True)
class Access:
    """The policy for proven strangers, and who is an admin once proven (``email:ann@example.org``, …).

    ``rooms``: whose words count in a room: those whom the policy admits, everybody's, or nobody's.
    """

    policy: Policy
    admins: Sequence[str]
    rooms: RoomPolicy = "members"


def admit(connection: Connection, claim: Claim, access: Access) -> User | None:
    """The user who speaks in private, created at the first proven word where the policy allows it; None: silence.

    Raises IntegrityError where another transaction created the same identity first; run it again then.
    """
    if not claim.proof:
        return None
    user = users.by_identity(connection, claim)
    admin = is_admin(claim, access.admins)
    if user is not None and user.blocked:
        return None
    if user is not None and user.role != GUEST:
        if admin and user.role != "admin":
            users.set_role(connection, user.id, "admin", None)
        return user
    if not _may_enter(claim, access):
        return None
    role = "admin" if admin else "member"
    if user is None:
        return users.create(connection, claim, role)
    users.set_role(connection, user.id, role, None)
    return User(user.id, user.display_name, role, False)


def is_stranger(connection: Connection, claim: Claim) -> bool:
    """Whether a proven claim is nobody's, or a guest's, who is known in rooms only. The blocked are known."""
    if not claim.proof:
        return False
    user = users.by_identity(connection, claim)
    return user is None or (user.role == GUEST and not user.blocked)


def admit_to_room(connection: Connection, claim: Claim, access: Access) -> User | None:
    """The user who speaks in a room; None: silence, for a stranger is not told in a room how to be let in.

    Where rooms are open, a stranger becomes a guest: known in rooms, and in private as unknown as before. Raises
    IntegrityError as ``admit`` does.
    """
    if not claim.proof or access.rooms == "off":
        return None
    user = users.by_identity(connection, claim)
    known = user is not None and user.role != GUEST
    if known or _may_enter(claim, access):
        return admit(connection, claim, access)
    if access.rooms != "open" or (user is not None and user.blocked):
        return None
    return user or users.create(connection, claim, GUEST)


def _may_enter(claim: Claim, access: Access) -> bool:
    """Whether a proven stranger becomes a user at their first word."""
    return claim.channel == "local" or access.policy == "open" or is_admin(claim, access.admins)


def is_admin(claim: Claim, admins: Sequence[str]) -> bool:
    """Whether a proven claim is the local owner or one of ``access.admins``."""
    if claim.channel == "local":
        return claim.external_id == OWNER
    if claim.channel == "email":
        return any(
            email_key(entry.removeprefix("email:")) == claim.external_id
            for entry in admins
            if entry.startswith("email:")
        )
    return Known(claim.channel, claim.account, claim.external_id).name in admins and "/" not in claim.external_id


def email_key(address: str) -> str:
    """An address as a key: its domain lower-cased and in A-labels (RFC 5890), the rest as it is.

    Domains that only look alike have different A-labels, and so are different people.
    """
    local, at, domain = address.strip().rpartition("@")
    if not domain.isascii():
        with contextlib.suppress(idna.IDNAError):  # otherwise no domain of this world: nobody can prove to be there
            domain = idna.encode(normalize("NFC", domain).lower()).decode("ascii")
    return f"{local}{at}{domain.lower()}"
