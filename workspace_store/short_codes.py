"""Short codes that people read, and type again: of approvals, of schedules."""

from __future__ import annotations

import secrets

ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Without what people mistake for something else; eight of them are 39 bits."""


def random(characters: int) -> str:
    """A code that nobody can guess."""
    return "".join(secrets.choice(ALPHABET) for _ in range(characters))
