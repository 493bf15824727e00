"""Sending a reply: as many messages as it needs. Telegram offers no way to look whether a message of unknown fate went
out: it is sent once more, and said to be possibly repeated. https://core.telegram.org/bots/api#sendmessage
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters
from telegram.error import ChatMigrated, TelegramError

from gateway.channel import Outcome, Refused, Retry, Sent, Uncertain
from gateway.parts import send_parts
from gateway.progress import Progress
from gateway.rendering.chunks import Chunk
from gateway.rooms import Moved, stay
from gateway.telegram import outcomes, texts
from gateway.telegram.render import render
from workspace_store.outbox import Reply

_PREFIXES = {"approve": "a", "deny": "d", "undo": "u"}
_IN_A_ROW = 2
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


@dataclass
class Sender:
    """Sends replies. ``progress``: how far each has gone."""

    bot: Bot
    progress: Progress
    moved: Moved = stay

    async def send(self, reply: Reply) -> Outcome:
        """Send what of a reply has not gone out yet."""
        chunks = render(str(reply.content.get("text") or ""))

        async def post(part: int) -> str | Retry | Refused | Uncertain:
            message = self._message(reply, first=part == 0, last=part == len(chunks) - 1)
            return await self._post(reply, message, chunks[part])

        return await send_parts(reply, chunks, self.progress, post)

    async def edit(self, reply: Reply) -> Outcome:
        """Put a reply in the place of an earlier message, without buttons. Doing it twice changes nothing."""
        if not reply.edits:
            return Sent(None)
        (chunk, *_) = render(str(reply.content.get("text") or ""))
        where: dict[str, Any] = {"chat_id": int(reply.conversation), "message_id": int(reply.edits)}
        data: Mapping[str, Any] = reply.content.get("reply") or {}
        if data.get("business"):
            where["business_connection_id"] = str(data["business"])
        form: dict[str, Any] = {"text": chunk.text, "parse_mode": "HTML"}
        for _ in range(3):
            try:
                await self.bot.edit_message_text(**where, **form, link_preview_options=_NO_PREVIEW)
            except ChatMigrated as error:
                where["chat_id"] = error.new_chat_id
            except TelegramError as error:
                if outcomes.is_about_markup(error) and "parse_mode" in form:
                    form = {"text": chunk.plain}
                elif outcomes.is_edited_already(error):
                    return Sent(reply.edits)
                else:
                    known = outcomes.of_error(error)
                    return Retry(known.reason) if isinstance(known, Uncertain) else known
            else:
                return Sent(reply.edits)
        return Refused(texts.refused("the edit in every form"))

    def _message(self, reply: Reply, *, first: bool, last: bool) -> dict[str, Any]:
        data: Mapping[str, Any] = reply.content.get("reply") or {}
        message: dict[str, Any] = {"chat_id": int(reply.conversation), "link_preview_options": _NO_PREVIEW}
        if reply.thread:
            message["message_thread_id"] = int(reply.thread)
        if data.get("business"):
            message["business_connection_id"] = str(data["business"])
        if first and data.get("reply_to"):
            message["reply_parameters"] = ReplyParameters(int(data["reply_to"]), allow_sending_without_reply=True)
        keyboard = _keyboard(reply.content.get("buttons")) if last else None
        return {**message, "reply_markup": keyboard} if keyboard else message

    async def _post(self, reply: Reply, message: dict[str, Any], chunk: Chunk) -> str | Retry | Refused | Uncertain:
        form: dict[str, Any] = {"text": chunk.text, "parse_mode": "HTML"}
        for _ in range(4):
            try:
                posted = await self.bot.send_message(**message, **form)
            except ChatMigrated as error:
                message = {**message, "chat_id": error.new_chat_id}
                await self.moved(reply.account, reply.conversation, str(error.new_chat_id))
            except TelegramError as error:
                if outcomes.is_about_markup(error) and "parse_mode" in form:
                    form = {"text": chunk.plain}
                elif outcomes.is_about_topic(error) and "message_thread_id" in message:
                    message = {name: value for name, value in message.items() if name != "message_thread_id"}
                else:
                    return outcomes.of_error(error)
            else:
                return str(posted.message_id)
        return Refused(texts.refused("the message in every form"))


def _keyboard(given: object) -> InlineKeyboardMarkup | None:
    """``content["buttons"]``: a list of ``{"action", "value", "label"}``; callback data has at most 64 bytes."""
    buttons = [
        InlineKeyboardButton(str(item["label"]), callback_data=f"{_PREFIXES[str(item['action'])]}:{item['value']}")
        for item in (given if isinstance(given, list) else [])
        if str(item["action"]) in _PREFIXES and len(str(item["value"]).encode()) <= 62
    ]
    rows = [buttons[at : at + _IN_A_ROW] for at in range(0, len(buttons), _IN_A_ROW)]
    return InlineKeyboardMarkup(rows) if rows else None
