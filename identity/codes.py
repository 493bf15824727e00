"""Codes that people carry from one channel to another: easy to read aloud, too long to be guessed.

Crockford's base 32 (https://www.crockford.com/base32.html): no I, L, O or U; what is typed for them is understood.
"""

from __future__ import annotations

import hashlib
import re
import secrets

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LINK_CHARACTERS = 12
"""60 bits."""
PAIRING_CHARACTERS = 6
"""Only an admin can use one."""
_TYPED = str.maketrans({"I": "1", "L": "1", "O": "0", "-": "", " ": ""})
_CODE = re.compile(rf"[{ALPHABET}]+")


def make(characters: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(characters))


def shown(code: str) -> str:
    """In groups of four, as people read it."""
    return "-".join(code[at : at + 4] for at in range(0, len(code), 4))


def typed(text: str) -> str:
    """What was typed, as it was made; empty where it can be no code."""
    code = text.strip().upper().translate(_TYPED) if len(text) <= 64 else ""
    return code if _CODE.fullmatch(code) else ""


_C = f"[{ALPHABET}ILO]"
# Written with hyphens, or in one piece with a digit in it, unlike the words of any language.
_SHOWN = re.compile(rf"(?i)(?<![0-9a-z])(?:{_C}{{4}}-{_C}{{4}}-{_C}{{4}}|(?=[a-z]*[0-9]){_C}{{12}})(?![0-9a-z])")


def masked(text: str) -> str:
    """A text without the linking codes in it, for what is kept."""
    return _SHOWN.sub("…", text)


def digest(code: str) -> str:
    """What is stored of a code."""
    return hashlib.sha256(f"nightporter link code {code}".encode()).hexdigest()
