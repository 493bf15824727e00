"""Drafts on Telegram: in private chats a draft of the platform's own, elsewhere a message that is edited.

https://core.telegram.org/bots/api#sendmessagedraft: a preview of half a minute that is no message, so that nothing of
it has to be taken away; Bot API servers before 9.3 do not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from telegram import Bot, LinkPreviewOptions, ReplyParameters
from telegram.error import BadRequest, InvalidToken, RetryAfter, TelegramError

from gateway import texts
from gateway.channel import Refused
from gateway.drafts import NotNow, NotShown, Showing, Shown
from gateway.rendering.chunks import Chunk
from gateway.telegram import outcomes
from gateway.telegram.render import render
from workspace_store.outbox import Reply

PACE_SECONDS = 1.0
EDIT_SECONDS = 3.5
"""A group takes 20 messages a minute, edits included. https://core.telegram.org/bots/faq#broadcasting-to-users"""
MOST_SHOWN = 3500


@dataclass
class Drafts:
    """``native``: whether this server knows drafts."""

    bot: Bot
    native: bool = True

    async def show(self, draft: Reply, known: str | None, showing: Showing) -> Shown:
        """Post or change a draft. Raises NotShown, NotNow."""
        chunk = render(texts.growing(showing.text, MOST_SHOWN))[0]
        data: Mapping[str, Any] = draft.content.get("reply") or {}
        if data.get("business"):
            raise NotShown("a business account answers with final words only")
        try:
            private = int(draft.conversation) > 0 and not known and self.native
            if private and await self._preview(draft, chunk):
                return Shown("")
            if known:
                await self._edit(draft, int(known), chunk)
                return Shown(known, EDIT_SECONDS)
            return Shown(await self._post(draft, data, chunk), EDIT_SECONDS)
        except RetryAfter as error:
            return Shown(known or "", outcomes.seconds_of(error))
        except TelegramError as error:
            said = outcomes.of_error(error)
            raise (NotShown if isinstance(said, Refused) else NotNow)(said.reason) from error

    async def _preview(self, draft: Reply, chunk: Chunk) -> bool:
        """False: this server does not know drafts."""
        topic = int(draft.thread) if draft.thread else None
        number = draft.id.int % 0x7FFFFFFF + 1
        chat = int(draft.conversation)
        try:
            await self.bot.send_message_draft(chat, number, chunk.text, topic, parse_mode="HTML")
        except InvalidToken:
            # What the library makes of "Not Found": the token is good, or nothing would be shown here at all.
            self.native = False
        except BadRequest as error:
            if not outcomes.is_about_markup(error):
                return False
            await self.bot.send_message_draft(chat, number, chunk.plain[:MOST_SHOWN], topic)
        return self.native

    async def _post(self, draft: Reply, data: Mapping[str, Any], chunk: Chunk) -> str:
        answered = data.get("reply_to")
        posted = await self.bot.send_message(
            int(draft.conversation),
            chunk.text,
            "HTML",
            message_thread_id=int(draft.thread) if draft.thread else None,
            reply_parameters=ReplyParameters(int(answered), allow_sending_without_reply=True) if answered else None,
            link_preview_options=LinkPreviewOptions(is_disabled=True),
        )
        return str(posted.message_id)

    async def _edit(self, draft: Reply, message: int, chunk: Chunk) -> None:
        try:
            await self.bot.edit_message_text(
                chunk.text,
                int(draft.conversation),
                message,
                parse_mode="HTML",
                link_preview_options=LinkPreviewOptions(is_disabled=True),
            )
        except BadRequest as error:
            if not outcomes.is_unchanged(error):
                raise
