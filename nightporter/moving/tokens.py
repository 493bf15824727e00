"""Short signed words that people carry from one installation to another: grants, and proofs that nobody came by one.

``np-grant.BODY.SIGNATURE`` and ``np-unused.BODY.SIGNATURE``: the body is JSON in base64url, signed with the key of the
installation that made it, which it names. Nothing in them is secret.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from identity.moves import MoveRefused
from nightporter import signing

GRANT, UNUSED = "np-grant", "np-unused"
CHARACTERS = 4000
PLACE_CHARACTERS = 200


@dataclass(frozen=True)
class Grant:
    """``user`` may come once from the installation ``source`` to ``target``, which people know as ``place``.

    ``source`` and ``target`` are public keys, hex; ``until`` is in microseconds.
    """

    id: UUID
    user: UUID
    source: str
    target: str
    place: str
    until: int


def make_grant(home: Path, grant: Grant) -> str:
    return _make(home, GRANT, {**asdict(grant), "id": grant.id.hex, "user": grant.user.hex})


def read_grant(token: str) -> Grant:
    """Raises MoveRefused."""
    body, signer = _read(GRANT, token)
    try:
        found = Grant(
            UUID(hex=body["id"]), UUID(hex=body["user"]), str(body["source"]), signer, place_name(body["place"]),
            int(body["until"]),
        )  # fmt: skip
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise MoveRefused("that is no grant: copy all of what `users grant` printed") from error
    return found


def place_name(given: object) -> str:
    """What one installation calls another, or itself, as people are told it: on one line. Raises ValueError."""
    name = str(given)
    if not name.isprintable() or len(name) > PLACE_CHARACTERS:
        raise ValueError(f"a place is named in at most {PLACE_CHARACTERS} printable characters")
    return name


def make_unused(home: Path, grant: UUID) -> str:
    """A proof that nobody came by that grant, nor ever will."""
    return _make(home, UNUSED, {"id": grant.hex, "target": signing.public_key(home)})


def read_unused(token: str) -> tuple[UUID, str]:
    """The grant that nobody came by, and the key of the installation that says so. Raises MoveRefused."""
    body, signer = _read(UNUSED, token)
    try:
        return UUID(hex=body["id"]), signer
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise MoveRefused("that is no proof: copy all of what `users revoke` printed") from error


def _make(home: Path, kind: str, body: dict[str, Any]) -> str:
    text = base64.urlsafe_b64encode(json.dumps(body, separators=(",", ":")).encode()).decode().rstrip("=")
    signature, _ = signing.sign(home, f"{kind}.{text}")
    return f"{kind}.{text}.{_short(signature)}"


def _short(digits: str) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(digits)).decode().rstrip("=")


def _read(kind: str, token: str) -> tuple[dict[str, Any], str]:
    """What a token says, and the key of the installation that made it."""
    token = "".join(token.split())
    named, _, rest = token.partition(".")
    text, _, signature = rest.partition(".")
    try:
        if named != kind or len(token) > CHARACTERS:
            raise ValueError
        body = json.loads(_long(text))
        key = str(body["target"])
        if not signing.verifies(f"{kind}.{text}", _long(signature).hex(), key):
            raise ValueError
    except (ValueError, KeyError, TypeError, binascii.Error, RecursionError) as error:
        made = "users grant" if kind == GRANT else "users revoke"
        raise MoveRefused(f"that is not what `{made}` printed, or not all of it") from error
    return body, key


def _long(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
