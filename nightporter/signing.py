"""The house's own signature: an Ed25519 key (RFC 8032) in ``<home>/receipt-key``, made at its first use, mode 0600."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NAME = "receipt-key"


def _key(home: Path) -> Ed25519PrivateKey:
    path = home / NAME
    try:
        return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
    except FileNotFoundError:
        draft = path.with_name(f".{NAME}-{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(Ed25519PrivateKey.generate().private_bytes_raw())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # refuses to replace a key that was made meanwhile
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return Ed25519PrivateKey.from_private_bytes(path.read_bytes())


def public_key(home: Path) -> str:
    """By which this installation is known to others, hex."""
    return _key(home).public_key().public_bytes_raw().hex()


def sign(home: Path, body: str) -> tuple[str, str]:
    """(signature, public key), hex."""
    key = _key(home)
    return key.sign(body.encode()).hex(), key.public_key().public_bytes_raw().hex()


def verifies(body: str, signature: str, public_key: str) -> bool:
    """Whether a receipt was signed with that key."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), body.encode())
    except (InvalidSignature, ValueError):
        return False
    return True
