"""One person at Slack, by mail and on Telegram: linked by code, with one memory and one workspace, and nobody else."""

from __future__ import annotations

import asyncio
import email.policy
import json
import mailbox
import re
import smtplib
from collections.abc import AsyncIterator, Callable
from email import message_from_bytes
from email.message import EmailMessage
from email.utils import make_msgid
from typing import Any

import pytest

from nightporter.testing import House
from nightporter.testing.slack import SlackServer
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import until

MakeHouse = Callable[..., House]
SECRET = "a-signing-secret"
EVE = {"id": 666, "is_bot": False, "first_name": "Ann"}


class Town:
    """Ann's three channels, and Eve's."""

    def __init__(self, house: House, slack: SlackServer, telegram: TelegramServer) -> None:
        self.house, self.server, self.bot = house, slack, telegram

    async def slack(self, words: str, user: str = "UANN") -> str:
        channel = f"D{user}"
        before = len(self.server.messages.get(channel, []))
        url = f"http://{self.house.addresses['http']}/slack/events"
        event = self.server.message(words, user=user, channel=channel)
        assert (await self.server.post(url, event, secret=SECRET))[0] == 200
        await until(lambda: len(self.server.messages.get(channel, [])) > before, f"slack answers {words[:40]}", 40)
        await asyncio.sleep(0.3)
        return "\n".join(_words(message) for message in self.server.messages[channel][before:])

    async def telegram(self, words: str, who: dict[str, Any] | None = None) -> str:
        sender = who or {"id": 5, "is_bot": False, "first_name": "Ann"}
        chat = int(sender["id"])
        before = len(self._said(chat))
        entities = [{"type": "bot_command", "offset": 0, "length": len(words.split()[0])}] if words[0] == "/" else []
        update = self.bot.message(words, chat={**sender, "type": "private"}, entities=entities)
        update["message"]["from"] = sender
        self.bot.say(update)
        await until(lambda: len(self._said(chat)) > before, f"telegram answers {words[:40]}", 40)
        await asyncio.sleep(0.3)
        return "\n".join(self._said(chat)[before:])

    def _said(self, chat: int) -> list[str]:
        return [message["text"] for message in self.bot.messages if message["chat"]["id"] == chat]

    async def mail(self, words: str, sender: str = "ann@example.org", to: str = "porter@localhost") -> str:
        found = EmailMessage()
        found["From"], found["To"], found["Subject"] = f"Ann <{sender}>", to, "Hello"
        found["Message-ID"] = make_msgid(domain="example.org")
        found.set_content(words)
        before = len(self._mails(sender))
        await asyncio.to_thread(self._send, sender, to, found)
        await until(lambda: len(self._mails(sender)) > before, f"mail answers {words[:40]}", 40)
        return "\n".join(self._mails(sender)[before:])

    def _send(self, sender: str, to: str, found: EmailMessage) -> None:
        with smtplib.SMTP("127.0.0.1", self.house.smtp_port, timeout=20) as client:
            client.sendmail(sender, [to], found.as_bytes(policy=email.policy.SMTP))

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


def _words(message: dict[str, Any]) -> str:
    return str(message.get("text") or "")


@pytest.fixture
async def town(make_house: MakeHouse) -> AsyncIterator[Town]:
    async with SlackServer() as slack, TelegramServer() as telegram:
        house = await asyncio.to_thread(
            make_house, telegram__token=TOKEN, telegram__api_url=telegram.api_url, slack__bot_token="xoxb-local",
            slack__signing_secret=SECRET, slack__api_url=slack.api_url, email__authentication="trusted_relay",
        )  # fmt: skip
        yield Town(house, slack, telegram)


def code_in(said: str) -> str:
    found = re.search(r"\b[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4}\b", said)
    assert found is not None, said
    return found[0]


async def test_one_person_at_three_channels_and_nobody_else(town: Town) -> None:
    # A stranger waits; the owner of the house lets her in.
    said = await town.slack("hello")
    assert "I do not know you yet" in said
    waiting = re.search(r"/admin approve ([0-9A-Z]{6})", said)
    assert waiting is not None
    assert "is let in" in await asyncio.to_thread(town.house.say, f"/admin approve {waiting[1]}")
    await asyncio.sleep(1.5)
    # Mail, by writing to the address with the code in it; Telegram, by the link.
    code = code_in(await town.slack("!link"))
    assert "slack:T1/UANN" in await town.mail("hi", to=f"porter+{code}@localhost")
    await town.mail(f"/confirm {code}")
    assert "one person now" in await town.slack(f"!confirm {code}")
    code = code_in(await town.slack("!link"))
    assert "slack:T1/UANN" in await town.telegram(f"/start {code}")
    await town.slack(f"!confirm {code}")
    assert "one person now" in await town.telegram(f"/confirm {code}")
    # One memory and one workspace.
    await town.slack("remember the codeword is heron")
    await town.slack("$ echo 'the treasure is under the oak' > map.txt; pwd")
    assert "heron" in await town.mail("recall codeword")
    assert "under the oak" in await town.mail("$ cat map.txt")
    await town.telegram("$ echo 'the treasure is under the elm' > map.txt")
    await town.telegram("remember the codeword is osprey")
    assert "under the elm" in await town.slack("$ cat map.txt")
    assert "osprey" in await town.mail("recall codeword")
    whoami = await town.telegram("/whoami")
    assert all(name in whoami for name in ("slack:T1/UANN", "email:ann@example.org", "telegram:5"))
    # Eve, who calls herself Ann, gets nothing, however she asks: a member by now.
    said = await town.telegram("hello", EVE)
    waiting = re.search(r"/admin approve ([0-9A-Z]{6})", said)
    assert waiting is not None
    await asyncio.to_thread(town.house.say, f"/admin approve {waiting[1]}")
    await asyncio.sleep(1.5)
    shown = await asyncio.to_thread(town.house.run, "users", "show", "telegram:5", "--json")
    identifier = json.loads(shown.stdout)["id"]
    asked = [
        "recall codeword", "recall treasure", "/memory", f"/memory {identifier}", "/history", "/actions",
        f"/link {identifier}",
        "$ ls -R /workspace /home; cat map.txt /workspace/merged/*/map.txt", f"/admin show {identifier}",
        f"/admin merge {identifier} {identifier}", f"$ find / -name '*{identifier}*' -o -name map.txt 2>/dev/null",
        f"/confirm {code}", f"/link {code}", "/whoami", f"recall {identifier}",
    ]  # fmt: skip
    for words in asked:
        said = await town.telegram(words, EVE)
        for secret in ("heron", "osprey", "under the", "slack:T1/UANN", "ann@example.org"):
            assert secret not in said, (words, said)
    verified = await asyncio.to_thread(town.house.run, "journal", "verify")
    assert verified.returncode == 0, verified.stdout
