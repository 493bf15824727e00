"""The menu of commands, as Telegram's clients offer it: all in private, in groups those that answer there.

https://core.telegram.org/bots/api#setmycommands: at most 100, of lower-case letters, with 1 to 256 characters of words.
"""

from __future__ import annotations

import structlog
from telegram import Bot, BotCommandScopeAllGroupChats, BotCommandScopeAllPrivateChats, BotCommandScopeDefault
from telegram.error import TelegramError

from router.commands import COMMANDS

log = structlog.get_logger()

MOST = 100
SUMMARY_CHARACTERS = 256


def commands(*, in_rooms: bool) -> list[tuple[str, str]]:
    """Name and summary of each."""
    listed = [
        (name, command.summary[:SUMMARY_CHARACTERS])
        for name, command in COMMANDS.items()
        if command.for_rooms or not in_rooms
    ]
    return listed[:MOST]


async def offer(bot: Bot) -> None:
    """Tell Telegram; without it, commands are typed from memory."""
    try:
        await bot.set_my_commands(commands(in_rooms=False), BotCommandScopeAllPrivateChats())
        await bot.set_my_commands(commands(in_rooms=True), BotCommandScopeAllGroupChats())
        # Where neither holds (an older client); and what an earlier release has set there goes.
        await bot.set_my_commands(commands(in_rooms=True), BotCommandScopeDefault())
    except TelegramError as error:
        log.info("commands are not listed", reason=error.message)
