"""Which domains speak for an author's domain: DMARC alignment (RFC 7489, 3.1), with the public suffix list at hand.

The policy's ``p=`` is for receivers who may be lenient; here only an aligned pass counts, whatever it says. A domain
without a record has not agreed that its neighbours speak for it: there only the very domain does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from gateway.email.proof.lookups import Lookups

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


@dataclass(frozen=True)
class Alignment:
    """How near a domain has to be to speak for ``domain``, for DKIM and for SPF."""

    domain: str
    strict_dkim: bool = True
    strict_spf: bool = True

    def for_dkim(self, other: str) -> bool:
        return aligned(self.domain, other, strict=self.strict_dkim)

    def for_spf(self, other: str) -> bool:
        return aligned(self.domain, other, strict=self.strict_spf)


def alignment_of(domain: str, lookups: Lookups) -> Alignment:
    """What the domain's DMARC record says, or that of its organisation. Raises TryAgain, TooManyLookups."""
    record = _record(domain, lookups)
    organisation = organisational(domain)
    if record is None and organisation not in (None, domain):
        record = _record(str(organisation), lookups)
    if record is None:
        return Alignment(domain)
    return Alignment(domain, record.get("adkim", "r") == "s", record.get("aspf", "r") == "s")


def _record(domain: str, lookups: Lookups) -> dict[str, str] | None:
    """The tags of the one DMARC record of a domain; several are as none (RFC 7489, 6.6.3)."""
    found = [tags for text in lookups.texts(f"_dmarc.{domain}") if (tags := _tags(text)) is not None]
    return found[0] if len(found) == 1 else None


def _tags(text: bytes) -> dict[str, str] | None:
    pieces = [piece.strip() for piece in text[:4096].decode("ascii", "replace").split(";")]
    if pieces[0].replace(" ", "").replace("\t", "") != "v=DMARC1":
        return None
    pairs = (piece.partition("=") for piece in pieces[1:] if "=" in piece)
    return {name.strip().lower(): value.strip().lower() for name, _, value in pairs}


def aligned(domain: str, other: str, *, strict: bool) -> bool:
    """Whether ``other`` speaks for ``domain``. Names are compared as DNS has them: look-alikes are strangers."""
    domain, other = domain.lower().rstrip("."), other.lower().rstrip(".")
    if domain == other:
        return True
    organisation = organisational(domain)
    return not strict and organisation is not None and organisation == organisational(other)


@lru_cache(maxsize=4096)
def organisational(domain: str) -> str | None:
    """The name registered under a public suffix; None for a suffix itself, under which anyone may register."""
    found = _suffixes().privatesuffix(domain.lower().rstrip("."))
    return found or None


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
