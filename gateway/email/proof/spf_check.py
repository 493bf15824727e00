"""SPF (RFC 7208): whether the connecting host may send for the envelope's domain, or for its HELO name."""

from __future__ import annotations

import ipaddress
from typing import Any

import spf

from gateway.email.proof.lookups import Lookups
from gateway.email.senders import TryAgain

MAX_RECORD_BYTES = 8192
MAX_VOID = 2
"""Look-ups that may find nothing (RFC 7208, 4.6.4)."""


def identity(envelope_from: str, helo: str) -> str:
    """The domain SPF is about: the envelope sender's, for a null sender the HELO name (RFC 7208, 2.4)."""
    return (envelope_from.strip("<> ").rpartition("@")[2] or helo).lower().rstrip(".")


def passes(peer: str, envelope_from: str, helo: str, lookups: Lookups) -> bool:
    """Whether SPF passes. Raises TryAgain, TooManyLookups."""
    try:
        ipaddress.ip_address(peer)
    except ValueError:
        return False
    sender = envelope_from.strip("<> ")
    query = _Query(lookups, peer.partition("%")[0], sender, helo)
    result, _, words = query.check()
    if result == "temperror":
        raise TryAgain(str(words))
    return bool(result == "pass")


class _Query(spf.query):  # type: ignore[misc]
    """pyspf's evaluation with our own look-ups."""

    def __init__(self, lookups: Lookups, peer: str, sender: str, helo: str) -> None:
        super().__init__(i=peer, s=sender, h=helo, strict=True)
        self._lookups = lookups

    def dns(self, name: str, qtype: str, cnames: Any = None, ignore_void: bool = False) -> list[Any]:
        try:
            found = self._found(str(name), qtype)
        except TryAgain as error:
            raise spf.TempError(str(error)) from error
        if not found and not ignore_void:
            self.void_lookups += 1
            if self.void_lookups > MAX_VOID:
                raise spf.PermError("too many look-ups that find nothing")
        return found

    def _found(self, name: str, qtype: str) -> list[Any]:
        if qtype in ("A", "AAAA"):
            return [record.address for record in self._lookups.ask(name, qtype)]  # type: ignore[arg-type]
        if qtype == "MX":
            records = self._lookups.ask(name, "MX")
            return [(record.preference, record.exchange.to_text(omit_final_dot=True)) for record in records]
        if qtype == "PTR":
            return [record.target.to_text(omit_final_dot=True) for record in self._lookups.ask(name, "PTR")]
        if qtype == "TXT":
            records = self._lookups.ask(name, "TXT")
            return [record.strings for record in records if sum(map(len, record.strings)) <= MAX_RECORD_BYTES]
        return []
