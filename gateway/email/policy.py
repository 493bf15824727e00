"""Whether a mail may be answered at all (RFC 3834, 2): machines, lists, bounces and ourselves never are."""

from __future__ import annotations

import re

from gateway.email import texts
from gateway.email.addresses import is_ours
from gateway.email.parsed import ParsedMail

_NOREPLY = re.compile(
    r"(?:no|do[-_.]?not|dont|never|ne)[-_.]?(?:repl(?:y|ies)|respond|responder|reponse|answer|contest)|"
    r"(?:keine[-_.]?antwort|nicht[-_.]?antworten|noresponda|nao[-_.]?responda|nepasrepondre|ne[-_.]?pas[-_.]?repondre|noresponse)",
    re.IGNORECASE,
)
_MACHINES = frozenset(
    {"mailer-daemon", "postmaster", "bounce", "bounces", "listserv", "majordomo", "mailman", "daemon", "nobody"}
)


def should_not_answer(mail: ParsedMail, envelope_from: str | None, own_address: str) -> str | None:
    """Why `mail` must not be answered nor start a turn, in words for a log; None if it may be.

    `envelope_from` is the sender of the SMTP envelope, an empty string for the null sender; None if unknown.
    """
    detail = mail.automatic_because or mail.kind
    if mail.kind == "bounce":
        return texts.NOT_BOUNCE.format(detail=detail)
    if mail.kind == "auto" or mail.auto_submitted != "no":
        return texts.NOT_AUTOMATIC.format(detail=detail)
    if envelope_from is not None and not envelope_from.strip("<> "):
        return texts.NOT_NULL_SENDER
    if mail.kind == "list" or mail.list_id or mail.precedence in {"bulk", "junk", "list"}:
        return texts.NOT_LIST.format(detail=detail if mail.automatic_because else mail.precedence or mail.list_id)
    addresses = [mail.from_address, envelope_from, *mail.from_addresses]
    if any(address and is_ours(address, own_address) for address in addresses):
        return texts.NOT_SELF
    if mail.from_address is None or "@" not in mail.from_address:
        return texts.NOT_ADDRESSED
    for address in (mail.from_address, *mail.reply_to, envelope_from or ""):
        local = address.rpartition("@")[0]
        if _NOREPLY.search(local) or local.lower() in _MACHINES:
            return texts.NOT_NOREPLY.format(address=address)
    return None
