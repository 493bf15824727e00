"""Ann's three channels, at servers that speak them: Slack, mail and Telegram; and others who write there."""

from __future__ import annotations

import asyncio
import email.policy
import mailbox
import re
import smtplib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.utils import make_msgid
from typing import Any

from nightporter.testing import House
from nightporter.testing.slack import SlackServer
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import until

SECRET = "a-signing-secret"
CHANNELS = ("slack", "email", "telegram")
ANN = {"id": 5, "is_bot": False, "first_name": "Ann"}


class Town:
    """What is said and heard at each channel."""

    def __init__(self, house: House, slack: SlackServer, telegram: TelegramServer) -> None:
        self.house, self.server, self.bot = house, slack, telegram

    async def say(self, channel: str, words: str) -> None:
        """Ann says something at one of her channels."""
        await {"slack": self._to_slack, "email": self._to_mail, "telegram": self._to_telegram}[channel](words)

    def said(self, channel: str) -> list[str]:
        """All that Ann was told at one of her channels, as it stands there now."""
        if channel == "slack":
            return self._at_slack("UANN")
        return self._mails("ann@example.org") if channel == "email" else self._at_telegram(5)

    async def slack(self, words: str, user: str = "UANN") -> str:
        before = len(self._at_slack(user))
        await self._to_slack(words, user)
        await until(lambda: len(self._at_slack(user)) > before, f"slack answers {words[:40]}", 40)
        await asyncio.sleep(0.3)
        return "\n".join(self._at_slack(user)[before:])

    async def telegram(self, words: str, who: dict[str, Any] | None = None) -> str:
        chat = int((who or ANN)["id"])
        before = len(self._at_telegram(chat))
        await self._to_telegram(words, who)
        await until(lambda: len(self._at_telegram(chat)) > before, f"telegram answers {words[:40]}", 40)
        await asyncio.sleep(0.3)
        return "\n".join(self._at_telegram(chat)[before:])

    async def mail(self, words: str, sender: str = "ann@example.org", to: str = "porter@localhost") -> str:
        before = len(self._mails(sender))
        await self._to_mail(words, sender, to)
        await until(lambda: len(self._mails(sender)) > before, f"mail answers {words[:40]}", 40)
        return "\n".join(self._mails(sender)[before:])

    async def _to_slack(self, words: str, user: str = "UANN") -> None:
        url = f"http://{self.house.addresses['http']}/slack/events"
        event = self.server.message(words, user=user, channel=f"D{user}")
        assert (await self.server.post(url, event, secret=SECRET))[0] == 200

    async def _to_telegram(self, words: str, who: dict[str, Any] | None = None) -> None:
        sender = who or ANN
        entities = [{"type": "bot_command", "offset": 0, "length": len(words.split()[0])}] if words[0] == "/" else []
        update = self.bot.message(words, chat={**sender, "type": "private"}, entities=entities)
        update["message"]["from"] = sender
        self.bot.say(update)

    async def _to_mail(self, words: str, sender: str = "ann@example.org", to: str = "porter@localhost") -> None:
        found = EmailMessage()
        found["From"], found["To"], found["Subject"] = f"Ann <{sender}>", to, "Hello"
        found["Message-ID"] = make_msgid(domain="example.org")
        found.set_content(words)
        await asyncio.to_thread(self._send, sender, to, found)

    def _send(self, sender: str, to: str, found: EmailMessage) -> None:
        with smtplib.SMTP("127.0.0.1", self.house.smtp_port, timeout=20) as client:
            client.sendmail(sender, [to], found.as_bytes(policy=email.policy.SMTP))

    def _at_slack(self, user: str) -> list[str]:
        return [str(message.get("text") or "") for message in self.server.messages.get(f"D{user}", [])]

    def _at_telegram(self, chat: int) -> list[str]:
        return [message["text"] for message in self.bot.messages if message["chat"]["id"] == chat]

    def _mails(self, to: str) -> list[str]:
        folder = self.house.home / "outgoing-mail"
        if not (folder / "cur").exists():
            return []
        texts = []
        for _, raw in sorted(mailbox.Maildir(folder, create=False).items(), key=lambda item: item[1].get_date()):
            parsed: Any = message_from_bytes(raw.as_bytes(), policy=email.policy.default)
            if to in parsed["To"]:
                texts.append(str(parsed.get_body(("plain",)).get_content()))
        return texts


@asynccontextmanager
async def town_with(make_house: Callable[..., House], **settings: str) -> AsyncIterator[Town]:
    """A house at all three channels, with these settings."""
    async with SlackServer() as slack, TelegramServer() as telegram:
        house = await asyncio.to_thread(
            make_house, telegram__token=TOKEN, telegram__api_url=telegram.api_url, slack__bot_token="xoxb-local",
            slack__signing_secret=SECRET, slack__api_url=slack.api_url, email__authentication="trusted_relay",
            **settings,
        )  # fmt: skip
        yield Town(house, slack, telegram)


async def link_all(town: Town) -> str:
    """Ann, who may talk here, says at each of her channels that the other two are hers; a code that was used."""
    code = code_in(await town.slack("!link"))
    assert "slack:T1/UANN" in await town.mail("hi", to=f"porter+{code}@localhost")
    await town.mail(f"/confirm {code}")
    assert "one person now" in await town.slack(f"!confirm {code}")
    code = code_in(await town.slack("!link"))
    assert "slack:T1/UANN" in await town.telegram(f"/start {code}")
    await town.slack(f"!confirm {code}")
    assert "one person now" in await town.telegram(f"/confirm {code}")
    return code


def code_in(said: str) -> str:
    found = re.search(r"\b[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4}\b", said)
    assert found is not None, said
    return found[0]
