"""DNS as the checks of senders need it: cached, bounded in number and time, and honest about what it cannot know.

No answer in time is ``TryAgain``, never an empty answer: a check that guesses would let a forger silence the server
that speaks against them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import dns.exception
import dns.name
import dns.rdatatype
import dns.resolver

from gateway.email.senders import TryAgain

RecordType = Literal["A", "AAAA", "MX", "PTR", "TXT"]

MAX_LOOKUPS = 40
"""For one mail: two for DMARC, a few keys, ten mechanisms of SPF with what they lead to."""
MAIL_SECONDS = 15.0
LOOKUP_SECONDS = 5.0
MAX_CACHED = 10_000
LONGEST_SECONDS = 3600.0
NEGATIVE_SECONDS = 60.0


class TooManyLookups(Exception):
    """The sender's records lead to more look-ups than any honest ones do."""


@dataclass(frozen=True)
class Answer:
    """Records of one name, and until when they may be believed (by the resolver's clock)."""

    records: tuple[Any, ...]
    until: float


class Resolver:
    """Asks ``server`` (host, port), or the system's servers, and remembers. For use from several threads."""

    def __init__(
        self,
        server: tuple[str, int] | None = None,
        *,
        seconds: float = LOOKUP_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self.clock = clock
        self._cache: OrderedDict[tuple[str, str], Answer] = OrderedDict()
        self._lock = threading.Lock()
        self._server = server
        self._asking: dns.resolver.Resolver | None = None

    def ask(self, name: str, kind: RecordType, seconds: float) -> tuple[Any, ...]:
        """The records of a name; empty where there are none. Raises TryAgain."""
        try:
            wanted = dns.name.from_text(name.rstrip(".") + ".")
        except (dns.exception.DNSException, UnicodeError):
            return ()  # no such name can be
        key = (wanted.to_text().lower(), kind)
        with self._lock:
            known = self._cache.get(key)
        if known is not None and known.until > self.clock():
            return known.records
        answer = self._fetch(wanted, kind, min(seconds, self.seconds))
        with self._lock:
            self._cache[key] = answer
            self._cache.move_to_end(key)
            while len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        return answer.records

    def _fetch(self, name: dns.name.Name, kind: RecordType, seconds: float) -> Answer:
        if seconds <= 0:
            raise TryAgain("DNS took too long")
        try:
            found = self._resolver().resolve(name, kind, lifetime=seconds, search=False, raise_on_no_answer=False)
        except (dns.resolver.NXDOMAIN, dns.resolver.YXDOMAIN):
            return Answer((), self.clock() + NEGATIVE_SECONDS)
        except (dns.exception.DNSException, OSError) as error:
            raise TryAgain(f"DNS does not answer for {name}: {type(error).__name__}") from error
        if found.rrset is None:
            return Answer((), self.clock() + NEGATIVE_SECONDS)
        return Answer(tuple(found), self.clock() + min(float(found.chaining_result.minimum_ttl), LONGEST_SECONDS))

    def _resolver(self) -> dns.resolver.Resolver:
        with self._lock:
            if self._asking is None:
                resolver = dns.resolver.Resolver(configure=self._server is None)
                if self._server is not None:
                    resolver.nameservers, resolver.port = [self._server[0]], self._server[1]
                resolver.timeout = min(2.0, self.seconds)
                self._asking = resolver
            return self._asking


@dataclass
class Lookups:
    """What one mail may ask: so many look-ups, so much time."""

    resolver: Resolver
    left: int = MAX_LOOKUPS
    seconds: float = MAIL_SECONDS
    ends: float = field(init=False)

    def __post_init__(self) -> None:
        self.ends = self.resolver.clock() + self.seconds

    def ask(self, name: str, kind: RecordType) -> tuple[Any, ...]:
        """Records of a name. Raises TryAgain, TooManyLookups."""
        self.left -= 1
        if self.left < 0:
            raise TooManyLookups("too many DNS look-ups")
        return self.resolver.ask(name, kind, self.ends - self.resolver.clock())

    def texts(self, name: str) -> list[bytes]:
        """The TXT records of a name, the strings of each put together."""
        return [b"".join(record.strings) for record in self.ask(name, "TXT")]
