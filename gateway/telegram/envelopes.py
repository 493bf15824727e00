"""What was read of an update, in channel-neutral words."""

from __future__ import annotations

import mimetypes
from typing import Any

from gateway.telegram import texts
from gateway.telegram.entities import utf16_length
from gateway.telegram.parsed import Bot, File, Parsed
from identity.users import Claim
from router.changes import Change
from router.envelope import Attachment, Envelope, clean, dedupe_key

NAME = "telegram"
SPLIT_UTF16 = 4000
"""Clients cut pastes at 4,096 units or at the last blank before."""
_ANSWERS = {"approve", "deny", "undo", "say"}


def claim(parsed: Parsed, bot: Bot) -> Claim:
    """Telegram vouches for its ids; who speaks for a group or channel is that group or channel."""
    return Claim(NAME, str(bot.id), str(parsed.user or ""), clean(parsed.display), "platform")


def envelope_of(parsed: Parsed, bot: Bot) -> Envelope:
    """An update that acts. Forwarded words are context: they are not the sender's own."""
    text, context = _text(parsed), parsed.context
    if parsed.forwarded:
        context = "\n\n".join(filter(None, (text, context)))
        text = texts.forwarded_from(str(parsed.details.get("forwarded_from") or ""))
    return Envelope(
        channel=NAME,
        account=str(bot.id),
        external_id=parsed.dedupe_key or "",
        sender=claim(parsed, bot),
        conversation=str(parsed.channel if parsed.channel is not None else parsed.user),
        thread=str(parsed.thread or ""),
        text=clean(text),
        context=clean(context),
        attachments=tuple(map(_attachment, parsed.files)),
        sent_at=parsed.sent_at * 1_000_000 if parsed.sent_at else None,
        more=_expects_more(parsed),
        order=parsed.message_id,
        shared=not parsed.direct and parsed.channel is not None,
        reply=_reply(parsed),
        title="" if parsed.direct else clean(parsed.title),
    )


def _attachment(file: File) -> Attachment:
    problem = texts.TOO_BIG if file.too_big else ""
    # What has no name of its own is called by what it is: ``photo.jpg``, ``voice.oga``.
    extension = "" if file.named else mimetypes.guess_extension(file.content_type) or ""
    name = file.name if file.named else f"{file.name.partition(':')[0]}{extension}"
    return Attachment(name, file.content_type, file.size, f"{NAME}:{file.id}", problem)


def _expects_more(parsed: Parsed) -> bool:
    """A sign that another update belongs to the same message."""
    if parsed.action != "message" or parsed.forwarded:
        return bool(parsed.group)
    cut = not parsed.files and utf16_length(parsed.text or "") >= SPLIT_UTF16
    alone = bool(parsed.files) and not parsed.text and not parsed.details.get("voice")
    return bool(parsed.group) or cut or alone


def _text(parsed: Parsed) -> str:
    said = parsed.text or ""
    if parsed.action in _ANSWERS:
        value = str(parsed.details.get("value")).partition(":")[2]
        return value if parsed.action == "say" else f"/{parsed.action} {value}"
    if parsed.action == "start":
        # A deep link carries a linking code; without one, people want to know what there is.
        return f"/link {said.removeprefix('pair_').removeprefix('link_')}" if said else "/help"
    if parsed.action == "command":
        return f"/{parsed.details.get('command')} {said}".strip()
    # A bare mention asks what there is to ask.
    return said if said or parsed.files or parsed.context else "/help"


def _reply(parsed: Parsed) -> dict[str, Any]:
    key = parsed.dedupe_key or ""
    found = {
        "reply_to": parsed.message_id if not parsed.direct and parsed.action not in _ANSWERS else None,
        "business": parsed.details.get("business_connection_id"),
        "pressed": parsed.message_id if parsed.action in _ANSWERS else None,
        "query": key.removeprefix("cb:") if key.startswith("cb:") else None,
    }
    return {name: value for name, value in found.items() if value}


def change_of(parsed: Parsed, bot: Bot, update: int) -> Change:
    """An edit or a reaction. ``update``: the id of the update it came in, which begins anew after a quiet week."""
    edit = parsed.action == "edit"
    return Change(
        kind="edit" if edit else "reaction",
        key=dedupe_key(NAME, str(bot.id), f"change:{update}:{parsed.channel}:{parsed.changed_at}"),
        message=f"{NAME}:{bot.id}:{parsed.channel}:{parsed.message_id}" if edit else "",
        sender=claim(parsed, bot),
        account=str(bot.id),
        conversation=str(parsed.channel),
        thread=str(parsed.thread or ""),
        text=clean(parsed.text or ""),
        emoji=str(parsed.details.get("emoji") or ""),
        target=str(parsed.details.get("target") or ""),
        removed=bool(parsed.details.get("removed")),
    )
