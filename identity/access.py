"""Who may speak to the agent: proof first, then the access policy for the unknown.

Unproven senders are nobody: they are not answered and nothing of theirs is stored. ``pairing`` acts as ``allowlist``
until people can be paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from identity import users
from identity.users import Claim, User

Policy = Literal["pairing", "allowlist", "open"]

OWNER = "owner"


@dataclass(frozen=True)
class Access:
    """The policy for proven strangers, and who is an admin once proven (``email:ann@example.org``, …)."""

    policy: Policy
    admins: Sequence[str]


def admit(connection: Connection, claim: Claim, access: Access) -> User | None:
    """The user who speaks, created at the first proven word where the policy allows it; None: silence.

    Raises IntegrityError where another transaction created the same identity first; run it again then.
    """
    if not claim.proof:
        return None
    user = users.by_identity(connection, claim)
    admin = is_admin(claim, access.admins)
    if user is not None:
        if admin and user.role != "admin":
            users.set_role(connection, user.id, "admin", None)
        return None if user.blocked else user
    local = claim.channel == "local"
    if not (local or admin or access.policy == "open"):
        return None
    return users.create(connection, claim, "admin" if admin else "member")


def is_admin(claim: Claim, admins: Sequence[str]) -> bool:
    """Whether a proven claim is the local owner or one of ``access.admins``."""
    if claim.channel == "local":
        return claim.external_id == OWNER
    names = {f"{claim.channel}:{claim.external_id}", f"{claim.channel}:{claim.account}/{claim.external_id}"}
    if claim.channel == "email":
        return any(
            email_key(entry.removeprefix("email:")) == claim.external_id
            for entry in admins
            if entry.startswith("email:")
        )
    return any(entry in names for entry in admins)


def email_key(address: str) -> str:
    """An address as a key: its domain lower-cased, the rest as it is."""
    local, at, domain = address.strip().rpartition("@")
    return f"{local}{at}{domain.lower()}"
