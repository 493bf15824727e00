"""What a delivery status notification says (RFC 3464), and what plain bounces say in its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from gateway.email.charsets import decode
from gateway.email.headers import message_ids, parse_headers
from gateway.email.limits import Budget
from gateway.email.mime import Part
from gateway.email.parsed import FailedDelivery

_STATUS = re.compile(r"\b([245]\.\d{1,3}\.\d{1,3})\b")
_ADDRESS = re.compile(r"<?([\w.+%=-]{1,80}@[\w-]{1,80}(?:\.[\w-]{1,80}){1,6})>?")
_RETURNED = re.compile(r"(?im)^[> \t]{0,4}message-id:[ \t\r\n]{0,4}(<[^<>\s]{1,900}>)")


def failed_delivery(root: Part, text: str, budget: Budget) -> FailedDelivery:
    """The failed message, its recipients, status and diagnostic, as far as the bounce names them."""
    recipients: list[str] = []
    action: Literal["failed", "delayed", "other"] = "failed"
    status = diagnostic = ""
    original: str | None = None
    for part in root.walk():
        if part.content_type in {"message/delivery-status", "message/global-delivery-status"}:
            for name, value in _fields(part, budget):
                if name == "action":
                    action = _action(value)
                elif name == "status" and not status:
                    status = value.split()[0] if value.split() else ""
                elif name in {"final-recipient", "original-recipient"}:
                    recipients.append(value.rpartition(";")[2].strip())
                elif name == "diagnostic-code" and not diagnostic:
                    diagnostic = value.partition(";")[2].strip() or value
        elif part.content_type in {"message/rfc822", "text/rfc822-headers", "message/global", "message/rfc822-headers"}:
            payload = part.payload(budget)[:262_144]
            headers, _ = parse_headers(payload, 0, len(payload))
            original = original or next(iter(message_ids(headers.raw("message-id"))), None)
    head = text[:100_000]
    if original is None and (found := _RETURNED.search(head)):
        original = found.group(1)
    if not status and (found := _STATUS.search(head)):
        status = found.group(1)
    if not recipients:
        recipients = _ADDRESS.findall(head[:4000])[:5]
    return FailedDelivery(
        original, tuple(dict.fromkeys(recipients)), status, action, diagnostic[:500] or _line(head, status)
    )


def _fields(part: Part, budget: Budget) -> Sequence[tuple[str, str]]:
    """The fields of all groups of a delivery-status body, in order."""
    payload = part.payload(budget)[:262_144]
    out: list[tuple[str, str]] = []
    position = 0
    for _ in range(200):
        if position >= len(payload):
            break
        headers, after = parse_headers(payload, position, len(payload))
        out.extend((name, decode(value)) for name, value in headers.fields)
        if after <= position or (not headers.fields and payload[position:after].strip()):
            break
        position = after
    return out


def _action(value: str) -> Literal["failed", "delayed", "other"]:
    word = value.strip().lower()
    return "failed" if word == "failed" else "delayed" if word == "delayed" else "other"


def _line(text: str, status: str) -> str:
    """The line of a plain bounce that holds its status."""
    return next((line.strip()[:500] for line in text.split("\n") if status and status in line), "")
