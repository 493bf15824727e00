"""Which parts of a mail are its text, and which are attachments (RFC 2046, 2183, 2387)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gateway.email import tnef
from gateway.email.charsets import decode, html_label, storable
from gateway.email.filenames import safe_name, unique_name
from gateway.email.headers import Headers, decode_words
from gateway.email.limits import Budget
from gateway.email.mime import Part
from gateway.email.parsed import Attachment
from gateway.email.reply_text import unflow

_CONTAINERS = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
_INCIDENTAL = frozenset(
    {
        "application/pgp-signature",
        "application/pkcs7-signature",
        "application/x-pkcs7-signature",
        "application/pgp-encrypted",
    }
)
_REPORT_PARTS = frozenset(
    {
        "message/delivery-status",
        "message/global-delivery-status",
        "text/rfc822-headers",
        "message/disposition-notification",
        "message/feedback-report",
    }
)


@dataclass
class Body:
    """One stretch of text, in the forms the sender gave: take one, never both."""

    plain: str | None = None
    html: str | None = None


@dataclass
class Contents:
    """What a mail holds, in order."""

    bodies: list[Body] = field(default_factory=list)
    attached: list[tuple[Part, bool]] = field(default_factory=list)
    """Parts that are files, and whether each is shown inside the text."""
    calendars: list[str] = field(default_factory=list)
    messages: list[Part] = field(default_factory=list)
    encrypted: bool = False


def contents(root: Part, budget: Budget) -> Contents:
    """Sort the parts of a mail. Stops adding when the budget's time is half gone."""
    out = Contents()
    out.bodies = _visit(root, out, budget, report=False)
    _open_containers(out, budget)
    return out


def _open_containers(out: Contents, budget: Budget) -> None:
    """Put what Outlook packed into ``winmail.dat`` in its place; a container without files stays what it is, a file."""
    attached: list[tuple[Part, bool]] = []
    for part, inline in out.attached:
        inside = None
        if (part.content_type in _CONTAINERS or part.filename.lower() == "winmail.dat") and not budget.late():
            inside = tnef.read(part.payload(budget), budget)
        if inside is None:
            attached.append((part, inline))
            continue
        attached += [(_part_of(file), False) for file in inside.files] or [(part, inline)]
        written = any((body.plain or body.html or "").strip() for body in out.bodies)
        if not written and (inside.plain.strip() or inside.html.strip()):
            out.bodies = [Body(inside.plain or None, inside.html or None)]
    out.attached = attached


def _part_of(file: tnef.File) -> Part:
    kind = file.content_type if re.fullmatch(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,80}", file.content_type) else ""
    kind = kind or "application/octet-stream"
    named = {"filename": storable(file.name)}
    return Part(Headers(), file.content, 0, len(file.content), kind, {}, "attachment", named)


def _visit(part: Part, out: Contents, budget: Budget, *, report: bool) -> list[Body]:
    if part.children:
        return _visit_multipart(part, out, budget, report=report)
    if part.content_type in _REPORT_PARTS or (report and part.content_type == "message/rfc822"):
        return []
    if part.content_type == "text/calendar":
        out.calendars.append(_text(part, budget))
        out.attached.append((part, False))
        return []
    if part.content_type in {"message/rfc822", "message/global"}:
        out.messages.append(part)
        out.attached.append((part, False))
        return []
    if part.maintype == "multipart":  # no part was found in it: what is there is text
        text = _text(part, budget)
        return [Body(plain=text)] if text.strip() and part.content_type != "multipart/report" else []
    if part.attached or part.maintype != "text" or part.disposition == "attachment":
        if part.content_type in {"application/pkcs7-mime", "application/x-pkcs7-mime"}:
            out.encrypted = True
        out.attached.append((part, part.disposition == "inline" or bool(part.headers.raw("content-id"))))
        return []
    if part.content_type in {"text/html", "application/xhtml+xml"}:
        return [Body(html=_text(part, budget))]
    return [Body(plain=_text(part, budget))]


def _visit_multipart(part: Part, out: Contents, budget: Budget, *, report: bool) -> list[Body]:
    report = report or part.content_type == "multipart/report"
    if part.content_type == "multipart/encrypted":
        out.encrypted = True
    bodies: list[Body] = []
    for child in part.children:
        if budget.late() and bodies:
            break
        bodies.extend(_visit(child, out, budget, report=report))
    if part.content_type == "multipart/alternative" and len(bodies) > 1:
        plain = [body.plain for body in bodies if body.plain is not None]
        html = [body.html for body in bodies if body.html is not None]
        return [Body("\n\n".join(plain) if plain else None, "\n".join(html) if html else None)]
    if part.content_type == "multipart/related" and len(bodies) > 1:
        return bodies[:1]
    return bodies


def _text(part: Part, budget: Budget) -> str:
    raw = part.payload(budget)
    if len(raw) > budget.text_bytes:
        budget.note("text")
        raw = raw[: budget.text_bytes]
    budget.text_bytes -= len(raw)
    label = html_label(raw, part.charset) if part.content_type == "text/html" else part.charset
    text = decode(raw, label)
    if part.params.get("format", "").lower() == "flowed" and part.content_type == "text/plain":
        text = unflow(text, delete_space=part.params.get("delsp", "").lower() == "yes")
    return text


def attachments(found: Contents, budget: Budget) -> tuple[Attachment, ...]:
    """The files of a mail, each under a safe name of its own."""
    taken: set[str] = set()
    out: list[Attachment] = []
    for number, (part, inline) in enumerate(found.attached, start=1):
        claimed = decode_words(part.filename)
        name = unique_name(safe_name(claimed, part.content_type, number), taken)
        content_id = re.sub(r"^<|>$", "", part.headers.text("content-id"))[:200]
        incidental = part.content_type in _INCIDENTAL or part.content_type == "text/calendar"
        out.append(Attachment(name, claimed, part.content_type, part.payload(budget), inline, content_id, incidental))
    return tuple(out)
