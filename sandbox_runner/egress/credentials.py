"""Which secret goes with a request: by host, port, method and path, and never one that the rule does not name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sandbox_runner.egress import redact
from sandbox_runner.egress.rules import Place

OVERRIDES = (b"x-http-method-override", b"x-http-method", b"x-method-override")
"""Headers by which some servers take a request for one of another method."""

# A path that a server may read as another: dot segments, encoded or not, and other separators.
_AMBIGUOUS = re.compile(r"(?:^|/)\.{1,2}(?:/|$|;)|%2e|%2f|%5c|%00|\\|//|;", re.IGNORECASE)


@dataclass(frozen=True)
class Credential:
    """A secret that is added outside the sandbox. ``value`` is the whole header value."""

    place: Place
    header: bytes
    value: str = field(repr=False)
    methods: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ("/",)

    def belongs_to(self, host: str, port: int) -> bool:
        return self.place.pattern.matches(host) and self.place.port in (None, port)

    def implies(self, host: str, port: int) -> bool:
        """Whether having it is enough to reach this port; without a port named, that of https alone."""
        return self.place.pattern.matches(host) and port == (self.place.port or 443)

    def covers(self, method: str, target: str) -> bool:
        path = target.partition("?")[0]
        if method not in self.methods:
            return False
        if "/" in self.paths:
            return True
        return not _AMBIGUOUS.search(path) and any(_below(path, granted) for granted in self.paths)


def _below(path: str, granted: str) -> bool:
    return path.startswith(granted) if granted.endswith("/") else path == granted or path.startswith(f"{granted}/")


@dataclass(frozen=True)
class Keyring:
    """All credentials of the settings."""

    credentials: tuple[Credential, ...] = ()

    def at(self, host: str, port: int) -> list[Credential]:
        return [each for each in self.credentials if each.belongs_to(host, port)]

    def implies(self, host: str, port: int) -> bool:
        return any(each.implies(host, port) for each in self.credentials)

    def covering(self, host: str, port: int, method: str, target: str) -> list[Credential]:
        """Those to add, at most one a header: the first named wins."""
        found: dict[bytes, Credential] = {}
        for each in self.at(host, port):
            if each.covers(method, target):
                found.setdefault(each.header, each)
        return list(found.values())

    def secrets(self) -> set[bytes]:
        """Every spelling that must not come back, of all of them: a host may know another one's."""
        return {spelling for each in self.credentials for spelling in redact.spellings(each.value)}


def stripped(credentials: Iterable[Credential]) -> set[bytes]:
    """Headers that the client may not send where these credentials are: its own would be believed, or override."""
    return {b"authorization", b"range", b"if-range", b"accept-encoding", *OVERRIDES, *(c.header for c in credentials)}
