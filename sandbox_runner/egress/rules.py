"""The grammar of ``egress.allow``: what one entry says, and whether a request is within it.

``[METHODS ][tcp://]HOST[:PORT]``: ``example.org``, ``*.example.org`` (what is below it, not itself), ``[2001:db8::1]``,
``example.org:8443``, ``GET|HEAD api.example.org``, ``tcp://git.example.org:22``. Without a port 80 and 443 are meant;
without methods all. ``tcp://`` lets anything through, not only TLS whose server name is the host asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox_runner.egress import names
from sandbox_runner.egress.names import BadHost

WEB_PORTS = (80, 443)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that ask and change nothing (RFC 9110, 9.2.1); TRACE is refused everywhere."""

# Top-level names that are not the public's (RFC 6761, RFC 6762, ICANN's .internal, and what networks use).
_OF_ONES_OWN = frozenset(
    ("corp", "example", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost", "test")
)
_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}")
_EXAMPLE = "write for example packages.example.org, *.example.org, example.org:8443 or GET|HEAD api.example.org"


@dataclass(frozen=True)
class Pattern:
    """A host, or all hosts below one."""

    host: str
    below: bool = False

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """``host`` or ``*.host``. Raises ValueError."""
        below = text.startswith("*.")
        bare = text[2:] if below else text
        if "*" in bare:
            raise ValueError(f"{text!r}: a * stands only at the front, as in *.example.org")
        if not bare.isascii():
            bare = _to_ascii(text, bare)
        try:
            host = names.canonical(bare)
        except BadHost as error:
            raise ValueError(f"{error}; {_EXAMPLE}") from None
        if below and (names.address_of(host) is not None or ("." not in host and host not in _OF_ONES_OWN)):
            raise ValueError(f"{text!r} would let too much through; name a host of your own below it")
        return cls(host, below)

    def matches(self, host: str) -> bool:
        return host.endswith(f".{self.host}") if self.below else host == self.host

    def __str__(self) -> str:
        return f"*.{self.host}" if self.below else self.host


@dataclass(frozen=True)
class Place:
    """A pattern and the port it is for; None: any that goes with it."""

    pattern: Pattern
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Place:
        """``host``, ``*.host``, either with ``:port``. Raises ValueError."""
        if "/" in text or "@" in text:
            raise ValueError(f"{text!r} is more than a host and a port; {_EXAMPLE}")
        host, colon, port = text.rpartition(":")
        if not colon or (":" in host and not host.startswith("[")) or text.endswith("]"):
            return cls(Pattern.parse(text))
        try:
            return cls(Pattern.parse(host), names.parse_port(port))
        except BadHost as error:
            raise ValueError(f"{text!r}: {error}; {_EXAMPLE}") from None


@dataclass(frozen=True)
class Rule:
    """One entry of ``egress.allow``."""

    place: Place
    methods: frozenset[str] = frozenset()
    """Empty: all."""
    opaque: bool = False
    """``tcp://``: a tunnel that nobody looks into."""

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Raises ValueError with one sentence and an example."""
        words = text.split()
        if not 1 <= len(words) <= 2:
            raise ValueError(f"{text!r} is not an entry of an allowlist; {_EXAMPLE}")
        methods = frozenset(re.split(r"[|,]", words[0])) if len(words) == 2 else frozenset()
        for method in methods:
            if not _METHOD.fullmatch(method) or method in ("CONNECT", "TRACE"):
                raise ValueError(f"{text!r}: {method!r} is not a method that can be allowed; {_EXAMPLE}")
        place = words[-1]
        opaque = place.startswith("tcp://")
        place = place.removeprefix("tcp://")
        rule = cls(Place.parse(place), methods, opaque)
        if opaque and (rule.place.port is None or methods):
            raise ValueError(f"{text!r}: tcp:// needs a port and takes no methods, as in tcp://git.example.org:22")
        return rule

    def covers(self, host: str, port: int) -> bool:
        at = self.place.port
        return self.place.pattern.matches(host) and (port in WEB_PORTS if at is None else port == at)


@dataclass(frozen=True)
class Allowed:
    """What the rules let happen at one host and port. ``methods`` None: all; empty: nothing."""

    methods: frozenset[str] | None
    opaque: bool = False

    def __bool__(self) -> bool:
        return self.methods is None or bool(self.methods)

    def takes(self, method: str) -> bool:
        return self.methods is None or method in self.methods


NOTHING = Allowed(frozenset())
ALL = Allowed(None)


def allowed(rules: Iterable[Rule], host: str, port: int) -> Allowed:
    """Everything that any of ``rules`` allows."""
    methods: frozenset[str] | None = frozenset()
    opaque = False
    for rule in rules:
        if rule.covers(host, port):
            opaque = opaque or rule.opaque
            methods = None if methods is None or not rule.methods else methods | rule.methods
    return Allowed(methods, opaque)


def _to_ascii(entry: str, host: str) -> str:
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError(f"{entry!r} is not a host name; {_EXAMPLE}") from None
