"""What a host is called: one spelling of each name and address, and no other spelling gets through.

Clients, resolvers and servers read hosts differently (``0x7f.1``, ``127.1``, a trailing dot, user information before
an ``@``), so whatever could be read in two ways is refused instead of being guessed at.
"""

from __future__ import annotations

import ipaddress
import re

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# The WHATWG URL standard, "ends in a number": what such a host means depends on who reads it.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class BadHost(ValueError):
    """A host that is none, or that could mean several."""


def address_of(host: str) -> Address | None:
    """The address that a canonical host is; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def canonical(host: str) -> str:
    """A host in its one spelling: lower case, no trailing dot, no brackets, addresses as they are usually written.

    Raises BadHost for what is not ASCII, not a name by RFC 1123 (underscores are let pass) nor a plain address.
    """
    if not host.isascii():
        raise BadHost(f"{host!r} is not in ASCII; write an international name in its xn-- form")
    if host.startswith("[") and host.endswith("]"):
        return _ipv6(host[1:-1])
    if ":" in host:
        return _ipv6(host)
    name = host.lower().removesuffix(".")
    labels = name.split(".")
    if not name or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadHost(f"{host!r} is not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(name))
        except ValueError:
            raise BadHost(f"{host!r} is an address in a form that programs read differently") from None
    return name


def _ipv6(text: str) -> str:
    try:
        return str(ipaddress.IPv6Address(text)) if "%" not in text else _refuse_zone(text)
    except ValueError:
        raise BadHost(f"{text!r} is not an IPv6 address") from None


def _refuse_zone(text: str) -> str:
    raise BadHost(f"{text!r} names a zone of one machine")


def split(authority: str, default_port: int | None) -> tuple[str, int]:
    """(canonical host, port) of ``host[:port]``. Raises BadHost, also for user information (RFC 9110, 4.2.4)."""
    if "@" in authority:
        raise BadHost("user information before the host is refused")
    host, port = authority, ""
    if authority.startswith("["):
        closing = authority.find("]")
        host, rest = authority[: closing + 1], authority[closing + 1 :]
        if closing < 0 or (rest and not rest.startswith(":")):
            raise BadHost(f"{authority!r} is not host:port")
        port = rest[1:]
        if rest == ":":
            raise BadHost(f"{authority!r} has an empty port")
    elif ":" in authority:
        host, _, port = authority.partition(":")
        if not port:
            raise BadHost(f"{authority!r} has an empty port")
    if not port and default_port is None:
        raise BadHost(f"{authority!r} names no port")
    return canonical(host), parse_port(port) if port else default_port or 0


def parse_port(text: str) -> int:
    """Raises BadHost."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536):
        raise BadHost(f"{text!r} is not a port")
    return int(text)


def authority(host: str, port: int) -> str:
    """``host:port`` as it is written in a request."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
