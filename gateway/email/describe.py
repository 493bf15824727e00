"""What `nightporter channel parse email FILE…` shows: how each mail is read, one JSON object a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gateway.email.limits import MAX_BYTES
from gateway.email.parse import parse
from gateway.email.parsed import Attachment, ParsedMail


def describe(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """One object a file, as one sequence: a repeated Message-ID gives the action `duplicate`.

    Raises OSError for a file that cannot be read.
    """
    seen: set[str] = set()
    for path in paths:
        with path.open("rb") as file:
            mail = parse(file.read(MAX_BYTES + 1))
        described = describe_mail(mail)
        key = mail.message_id
        if key is not None and key in seen:
            described["action"] = "duplicate"
        elif key is not None:
            seen.add(key)
        yield {"file": path.name, **described}


def describe_mail(mail: ParsedMail) -> dict[str, Any]:
    """A mail in the words of the corpus. `attachments` are the claimed names, `stored_as` the safe ones."""
    described: dict[str, Any] = {
        "kind": mail.kind,
        "action": "ignore" if mail.kind in {"auto", "bounce", "list"} else "message",
        "reply_text": mail.reply_text,
        "from": mail.from_address,
        "from_name": mail.from_name,
        "subject": mail.subject,
        "message_id": mail.message_id,
        "in_reply_to": mail.in_reply_to,
        "references": list(mail.references),
        "date": mail.date.isoformat() if mail.date else None,
        "attachments": [_name(item) for item in mail.attachments if not item.incidental],
        "attachments_optional": [_name(item) for item in mail.attachments if item.incidental],
        "stored_as": [item.name for item in mail.attachments],
        "context": mail.context,
    }
    if mail.automatic_because:
        described["reason"] = mail.automatic_because
    if mail.failed_delivery:
        failed = mail.failed_delivery
        described["failed_delivery"] = {
            "message_id": failed.message_id,
            "recipients": list(failed.recipients),
            "status": failed.status,
            "action": failed.action,
            "diagnostic": failed.diagnostic,
        }
    if mail.invitation:
        event = mail.invitation
        described["invitation"] = {
            "method": event.method,
            "summary": event.summary,
            "starts": event.starts,
            "ends": event.ends,
            "location": event.location,
            "organizer": event.organizer,
        }
    if mail.limits_reached:
        described["limits_reached"] = list(mail.limits_reached)
    return described


def _name(item: Attachment) -> str:
    return item.claimed_name or f"?{item.content_type}"
