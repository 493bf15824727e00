"""What an error of the Bot API, or a silence, says about a message. https://core.telegram.org/bots/api#making-requests"""

from __future__ import annotations

import warnings
from datetime import timedelta

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)

from gateway.channel import Refused, Retry, Uncertain
from gateway.files import NoFile, NotYet
from gateway.telegram import texts

TOKEN_RETRY_SECONDS = 300.0
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def of_error(error: TelegramError) -> Retry | Refused | Uncertain:
    """What is known of a message whose sending raised ``error``."""
    if isinstance(error, RetryAfter):
        return Retry("Telegram asks to wait", seconds_of(error))
    if isinstance(error, Forbidden):
        return Refused(f"{texts.BLOCKED}: {error.message}")
    if isinstance(error, InvalidToken):
        return Retry(texts.BAD_TOKEN, TOKEN_RETRY_SECONDS)
    if isinstance(error, BadRequest | ChatMigrated | Conflict):
        return Refused(texts.refused(error.message))
    if isinstance(error.__cause__, _NOT_SENT):
        return Retry(texts.unreachable(error.message), outage=True)
    if isinstance(error, NetworkError):
        return Uncertain(texts.unreachable(error.message), outage=True)
    return Refused(texts.refused(error.message))


def of_file_error(error: TelegramError) -> NoFile | NotYet:
    """What is known of a file whose fetching raised ``error``."""
    if isinstance(error, RetryAfter):
        return NotYet("Telegram asks to wait", seconds_of(error))
    if isinstance(error, BadRequest) and "too big" in error.message.lower():
        return NoFile(texts.TOO_BIG)
    # "wrong file_id or the file is temporarily unavailable" says both in one.
    if isinstance(error, BadRequest | Forbidden) and "temporarily" not in error.message.lower():
        return NoFile(texts.refused(error.message))
    return NotYet(texts.unreachable(error.message))


def seconds_of(error: RetryAfter) -> float:
    """How long Telegram asks to wait; the library gives a number or, by its option, a duration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The number is announced to become a duration: both are read here.
        wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def is_about_markup(error: TelegramError) -> bool:
    """Whether the form of the text was refused: the same words may pass without markup."""
    return isinstance(error, BadRequest) and "entit" in error.message.lower()


def is_about_topic(error: TelegramError) -> bool:
    """Whether the topic is gone: the answer still belongs to the chat."""
    message = error.message.lower() if isinstance(error, BadRequest) else ""
    return "thread not found" in message or "topic_" in message


def is_edited_already(error: TelegramError) -> bool:
    """Whether there is nothing left to edit: it says so already, or was deleted."""
    message = error.message.lower() if isinstance(error, BadRequest) else ""
    return any(word in message for word in ("not modified", "message to edit not found", "message can't be edited"))


def is_unchanged(error: TelegramError) -> bool:
    """Whether an edit was refused because the message says that already: it was made before."""
    return isinstance(error, BadRequest) and "not modified" in error.message.lower()


def is_too_long(error: TelegramError) -> bool:
    return isinstance(error, BadRequest) and "too long" in error.message.lower()
