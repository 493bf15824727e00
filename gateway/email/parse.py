"""Reads one mail: bytes in, `ParsedMail` out. Never raises, whatever the bytes; bounded by `limits`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from gateway.email import bounce, calendars, kinds, limits, reply_text
from gateway.email.bodies import Body, Contents, attachments, contents
from gateway.email.charsets import storable
from gateway.email.headers import Headers, date, mailboxes, message_ids
from gateway.email.html_text import to_text
from gateway.email.limits import Budget
from gateway.email.mime import Part, read
from gateway.email.parsed import Invitation, Kind, ParsedMail
from gateway.email.reply_text import Split

_STUB_WORDS = ("html", "browser", "mail client", "e-mail client", "email client", "view this")


def parse(data: bytes, *, clock: Callable[[], float] = time.monotonic) -> ParsedMail:
    """What the mail `data` says. `clock` gives seconds and only serves the deadline of two seconds.

    Input that is no MIME, or nothing at all, gives a ParsedMail too.
    """
    budget = Budget(clock=clock)
    root = read(data, budget)
    found = contents(root, budget)
    headers = root.headers
    subject = headers.text("subject")[:2000]
    in_reply_to = next(iter(message_ids(headers.raw("in-reply-to"))), None)
    references = message_ids(headers.raw("references"))
    answers = bool(in_reply_to or references) or kinds.subject_says_reply(subject)
    read_text = _read_text(found, budget, answers=answers, passes_on=kinds.subject_says_forward(subject))
    kind, because = _kind(root, found, read_text, answers=bool(in_reply_to or references))
    authors = [box for raw in headers.raws("from")[:5] for box in mailboxes(raw, limit=20)]
    context = read_text.context
    if not read_text.forwarded or not context:
        context = _with_attached_mails(context, found, budget)
    event = _invitation(found)
    if event is not None:
        context = "\n\n".join(filter(None, (calendars.describe(event), context)))
    return_path = mailboxes(headers.raw("return-path"), limit=1)
    return ParsedMail(
        kind=kind,
        reply_text=read_text.own,
        context=context[: limits.MAX_CONTEXT_CHARS],
        from_address=authors[0].address if authors else None,
        from_name=authors[0].name if authors else "",
        from_addresses=tuple(dict.fromkeys(box.address for box in authors)),
        reply_to=_addresses(headers, "reply-to"),
        to=_addresses(headers, "to"),
        cc=_addresses(headers, "cc"),
        subject=subject,
        message_id=next(iter(message_ids(headers.raw("message-id"))), None),
        in_reply_to=in_reply_to,
        references=references,
        date=date(headers.raw("date")),
        attachments=attachments(found, budget),
        auto_submitted=kinds.auto_submitted(root),
        automatic_because=because,
        return_path=(return_path[0].address if return_path else "") if headers.has("return-path") else None,
        precedence=headers.text("precedence").lower()[:40],
        list_id=headers.text("list-id")[:300],
        failed_delivery=bounce.failed_delivery(root, _all_text(found), budget) if kind == "bounce" else None,
        invitation=event,
        encrypted=found.encrypted,
        limits_reached=tuple(budget.spent),
    )


def _read_text(found: Contents, budget: Budget, *, answers: bool, passes_on: bool) -> Split:
    """The own words and the context of all text parts together."""
    texts = [_chosen(body, budget) for body in found.bodies]
    text = "\n\n".join(item for item in texts if item.strip())
    if budget.late():
        return Split(storable(text).strip(), "", False, False)
    split = reply_text.split(text, is_reply=answers or passes_on, late=budget.late)
    html_only = all(body.plain is None for body in found.bodies)
    if html_only and not split.own and split.has_quote and not split.forwarded and found.bodies:
        bare = "\n\n".join(to_text(body.html or "", budget, structure=False) for body in found.bodies)
        again = reply_text.split(bare, is_reply=answers or passes_on, late=budget.late)
        split = again if again.own else split
    if passes_on and split.has_quote and not split.forwarded:
        split = replace(split, forwarded=True)
    return split


def _chosen(body: Body, budget: Budget) -> str:
    """One of the two forms of a text: plain, unless it is empty or only says to look at the HTML."""
    plain = body.plain or ""
    if body.html is None or (plain.strip() and not _is_stub(plain)):
        return plain
    if budget.late():
        return plain
    text = to_text(body.html, budget)
    return text if text.strip() or not plain.strip() else plain


def _is_stub(plain: str) -> bool:
    short = " ".join(plain.split()).lower()
    return len(short) < 250 and "html" in short and any(word in short for word in _STUB_WORDS[1:])


def _kind(root: Part, found: Contents, text: Split, *, answers: bool) -> tuple[Kind, str | None]:
    if because := kinds.bounce_because(root):
        return "bounce", because
    if because := kinds.auto_because(root):
        return "auto", because
    if found.calendars:
        return "calendar", None
    if because := kinds.list_because(root):
        return "list", because
    if text.forwarded and text.context:
        return "forward", None
    if not text.own.strip():
        return ("forward" if found.messages and not text.has_quote else "empty"), None
    if answers or text.has_quote:
        return "reply", None
    return "new", None


def _with_attached_mails(context: str, found: Contents, budget: Budget) -> str:
    """Attached messages as context: their main fields and text, one level deep."""
    parts = [context] if context else []
    for part in found.messages[:10]:
        if budget.late():
            break
        inner = read(part.payload(budget), budget)
        fields = [
            f"{name.title()}: {value}" for name in ("from", "date", "subject") if (value := inner.headers.text(name))
        ]
        body = "\n\n".join(_chosen(item, budget) for item in contents(inner, budget).bodies)
        parts.append("\n".join([*fields, "", reply_text.tidy(body).strip()]))
    return "\n\n".join(parts)


def _addresses(headers: Headers, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(box.address for raw in headers.raws(name)[:5] for box in mailboxes(raw)))


def _invitation(found: Contents) -> Invitation | None:
    for text in found.calendars:
        if event := calendars.invitation(text):
            return event
    return None


def _all_text(found: Contents) -> str:
    return "\n".join(body.plain if body.plain is not None else body.html or "" for body in found.bodies)
