"""Files of a reply: as documents, which arrive as they are; a picture that is to be looked at as a photo.

https://core.telegram.org/bots/api#sending-files
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telegram import Bot, InputFile
from telegram.error import BadRequest, ChatMigrated, TelegramError

from gateway.channel import Refused, Retry, Uncertain
from gateway.files import OutgoingFile
from gateway.telegram import outcomes, texts

MAX_UPLOAD_BYTES = 50_000_000
MAX_PHOTO_BYTES = 10_000_000
PHOTOS = ("image/jpeg", "image/png", "image/webp")
UPLOAD_SECONDS = 120.0


async def post(
    bot: Bot, message: Mapping[str, Any], file: OutgoingFile, content: bytes
) -> str | Retry | Refused | Uncertain:
    """Send one file: its message's id. Raises ChatMigrated."""
    if len(content) > MAX_UPLOAD_BYTES:
        return Refused(texts.TOO_BIG_TO_SEND)
    if not content:
        return Refused(texts.EMPTY_FILE)
    where = {name: value for name, value in message.items() if name != "link_preview_options"}
    photo = file.show and file.content_type in PHOTOS and len(content) <= MAX_PHOTO_BYTES
    for _ in range(4):
        given = InputFile(content, filename=file.name)
        patience: dict[str, Any] = {"read_timeout": UPLOAD_SECONDS, "write_timeout": UPLOAD_SECONDS}
        try:
            if photo:
                posted = await bot.send_photo(photo=given, **where, **patience)
            else:
                posted = await bot.send_document(
                    document=given, disable_content_type_detection=True, **where, **patience
                )
        except ChatMigrated:
            raise
        except TelegramError as error:
            if outcomes.is_about_topic(error) and "message_thread_id" in where:
                where.pop("message_thread_id")
            elif photo and isinstance(error, BadRequest):
                # Its sides are too long or too unequal, or it is none: a file it can be.
                photo = False
            else:
                return outcomes.of_error(error)
        else:
            return str(posted.message_id)
    return Refused(texts.refused("the file in every form"))
