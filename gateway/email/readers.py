"""Who else reads a mail: answered too where `email.reply_all` is set, and given no access by it."""

from __future__ import annotations

from gateway.email.addresses import is_address, is_ours, normal
from gateway.email.parsed import ParsedMail

MOST = 50


def others(parsed: ParsedMail, own: str, sender: str) -> list[str]:
    """The other addresses of To and Cc, each once, without the sender's and our own; none of more than `MOST`."""
    found: dict[str, str] = {}
    for address in (*parsed.to, *parsed.cc):
        if is_address(address) and not is_ours(address, own) and normal(address) != normal(sender):
            found.setdefault(normal(address), address)
    return list(found.values()) if len(found) <= MOST else []
