"""Our own address, its plus addresses, and whether a string may stand in an SMTP command or a header at all."""

from __future__ import annotations

import re

_LOCAL = re.compile(r"[^\s<>()\[\]\\,;:@\"\x00-\x1f\x7f]{1,64}")
_DOMAIN = re.compile(r"[^\s<>()\[\]\\,;:@\"\x00-\x1f\x7f]{1,253}|\[[0-9A-Fa-f.:IPv]{2,50}\]")


def is_address(text: str) -> bool:
    """Whether `text` is a plain `local@domain`: no quotes, blanks, controls or separators, so that nothing can be
    injected with it (RFC 5321, 4.1.2, without quoted local parts)."""
    local, at, domain = text.rpartition("@")
    return (
        bool(at and _LOCAL.fullmatch(local) and _DOMAIN.fullmatch(domain))
        and "\u2028" not in text
        and "\x85" not in text
    )


def normal(address: str) -> str:
    """For comparing: lower case, the domain in its ASCII form (RFC 5890)."""
    local, at, domain = address.strip().strip("<>").rpartition("@")
    try:
        domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        domain = domain.casefold()
    return f"{local.casefold()}{at}{domain.lower().rstrip('.')}"


def is_ours(address: str, own: str) -> bool:
    """Whether `address` is our own or a plus address of it (RFC 5233)."""
    given, mine = normal(address), normal(own)
    local, _, domain = given.rpartition("@")
    own_local, _, own_domain = mine.rpartition("@")
    return domain == own_domain and local.partition("+")[0] == own_local.partition("+")[0] and bool(local)


def plus_part(address: str, own: str) -> str:
    """What stands after the plus of an address of ours (RFC 5233); empty where nothing does."""
    return normal(address).rpartition("@")[0].partition("+")[2] if is_ours(address, own) else ""


def is_deliverable(address: str, own: str) -> bool:
    """Whether the server takes mail for `address`: ours, or the postmaster every server has (RFC 5321, 4.5.1)."""
    local, _, domain = normal(address).rpartition("@")
    if not domain and not local:
        return False
    if (local or domain) == "postmaster" and (not local or domain == normal(own).rpartition("@")[2]):
        return True
    return is_ours(address, own)
