"""Sending a reply: as many messages as it needs. Telegram offers no way to look whether a message of unknown fate went
out: it is sent once more, and said to be possibly repeated. https://core.telegram.org/bots/api#sendmessage
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters
from telegram.error import BadRequest, ChatMigrated, TelegramError

from gateway.channel import Outcome, Refused, Retry, Sent, Uncertain, in_doubt, repeatable
from gateway.conversations import Conversations
from gateway.files import NoFile, OutgoingFile, Read, files_of
from gateway.parts import Found, send_parts
from gateway.progress import Progress
from gateway.rendering.chunks import Chunk, rendered
from gateway.telegram import outcomes, texts, uploads
from gateway.telegram.entities import utf16_length
from gateway.telegram.render import plain_chunks, render
from gateway.texts import file_not_sent
from workspace_store.drafts import draft_of
from workspace_store.outbox import Reply

log = structlog.get_logger()

_PREFIXES = {"approve": "a", "deny": "d", "undo": "u", "say": "s"}
_IN_A_ROW = 2
SHORT_UTF16 = 2000
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


@dataclass
class Sender:
    """Sends replies. ``progress``: how far each has gone."""

    bot: Bot
    progress: Progress
    conversations: Conversations
    files: Read

    async def send(self, reply: Reply) -> Outcome:
        """Send what of a reply has not gone out yet."""
        chunks = await rendered(render, str(reply.content.get("text") or ""))
        draft = draft_of(reply.content)

        files = files_of(reply)

        async def post(part: int) -> str | Retry | Refused | Uncertain:
            if part >= len(chunks):
                message = self._message(reply, first=part == 0, last=False)
                return await self._post_file(reply, message, files[part - len(chunks)])
            message = self._message(reply, first=part == 0, last=part == len(chunks) - 1)
            if part == 0 and draft:
                ended = await self._end(message, int(draft), chunks[part])
                if ended is not None:
                    return ended
            return await self._post(reply, message, chunks[part])

        async def find(part: int) -> Found:
            # A draft may be given its final words any number of times.
            return Found() if part == 0 and draft else Found(unsure=True)

        outcome = await send_parts(reply, [*chunks, *files], self.progress, post, find)
        if draft and not chunks and isinstance(outcome, Sent):
            await self._withdraw(int(reply.conversation), int(draft))
        return outcome

    async def _end(
        self, message: Mapping[str, Any], draft: int, chunk: Chunk
    ) -> str | Retry | Refused | Uncertain | None:
        """Put the final words in a draft's place; None: it is gone, and they are to be sent."""
        given: dict[str, Any] = {
            name: message.get(name) for name in ("chat_id", "link_preview_options", "reply_markup")
        }
        form: dict[str, Any] = {"text": chunk.text, "parse_mode": "HTML"}
        for _ in range(2):
            try:
                await self.bot.edit_message_text(message_id=draft, **given, **form)
            except TelegramError as error:
                if outcomes.is_unchanged(error):
                    return str(draft)
                if outcomes.is_about_markup(error) and "parse_mode" in form:
                    form = {"text": chunk.plain}
                    continue
                said = outcomes.of_error(error)
                # Deleted by somebody, or too old to be changed: the words go out all the same.
                return None if isinstance(error, BadRequest | ChatMigrated) else said
            else:
                return str(draft)
        return None

    async def _withdraw(self, chat: int, draft: int) -> None:
        """There is nothing to say in the end."""
        try:
            await self.bot.delete_message(chat, draft)
        except TelegramError as error:
            log.info("a draft stays", reason=error.message)

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
                    return repeatable(outcomes.of_error(error))
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
                await self.conversations.moved(reply.account, reply.conversation, str(error.new_chat_id))
            except TelegramError as error:
                if outcomes.is_about_markup(error) and "parse_mode" in form:
                    form = {"text": chunk.plain}
                elif outcomes.is_too_long(error) and utf16_length(chunk.plain) > SHORT_UTF16:
                    return await self._post_in_pieces(reply, message, chunk)
                elif outcomes.is_about_topic(error) and "message_thread_id" in message:
                    message = {name: value for name, value in message.items() if name != "message_thread_id"}
                else:
                    return outcomes.of_error(error)
            else:
                return str(posted.message_id)
        return Refused(texts.refused("the message in every form"))

    async def _post_file(
        self, reply: Reply, message: dict[str, Any], file: OutgoingFile
    ) -> str | Retry | Refused | Uncertain:
        """Send a file; words go out in the place of one that cannot be sent."""
        try:
            content = await self.files(reply.principal, file)
            said = await uploads.post(self.bot, message, file, content)
        except NoFile as error:
            said = Refused(str(error))
        except ChatMigrated as error:
            await self.conversations.moved(reply.account, reply.conversation, str(error.new_chat_id))
            return await self._post_file(reply, {**message, "chat_id": error.new_chat_id}, file)
        if not isinstance(said, Refused):
            return said
        (chunk, *_) = render(file_not_sent(file.name, said.reason))
        return await self._post(reply, message, chunk)

    async def _post_in_pieces(
        self, reply: Reply, message: dict[str, Any], chunk: Chunk
    ) -> str | Retry | Refused | Uncertain:
        """Plain words with all their addresses may be longer than the markup that hid them."""
        posted: list[str] = []
        pieces = plain_chunks(chunk.plain, SHORT_UTF16)
        for number, piece in enumerate(pieces):
            given = message if number == len(pieces) - 1 else {**message, "reply_markup": None}
            said = await self._post(reply, given, piece)
            if not isinstance(said, str):
                return in_doubt(said) if posted else said
            posted.append(said)
        return posted[-1]


def _keyboard(given: object) -> InlineKeyboardMarkup | None:
    """``content["buttons"]``: a list of ``{"action", "value", "label"}``; callback data has at most 64 bytes."""
    buttons = [
        InlineKeyboardButton(str(item["label"]), callback_data=f"{_PREFIXES[str(item['action'])]}:{item['value']}")
        for item in (given if isinstance(given, list) else [])
        if str(item["action"]) in _PREFIXES and len(str(item["value"]).encode()) <= 62
    ]
    rows = [buttons[at : at + _IN_A_ROW] for at in range(0, len(buttons), _IN_A_ROW)]
    return InlineKeyboardMarkup(rows) if rows else None
