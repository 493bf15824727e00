"""``nightporter chat``: one message with ``-m``, or a conversation at the terminal.

The answer is what ``GET /v1/messages/{id}`` says; events only tell when to look, and show what happens meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nightporter.cli import server, texts
from nightporter.cli.client import Client, Event, Outcome
from nightporter.cli.files import Upload, upload, with_files
from nightporter.errors import FAILED, CommandError, ConfigurationError
from nightporter.settings import load

LOOK_SECONDS = 0.5
"""How often to look at a message of which no event tells."""


def run(
    message: str | None, files: Sequence[Path], save: Path | None, user: str, timeout: float, *, as_json: bool
) -> int:
    """Talk; 0 done, 1 failed, 3 not running. ``save``: the folder for the answer's files."""
    settings = load()
    found = server.find(settings)
    sent = [upload(path) for path in files]
    if not sent and message is not None and not message.strip():
        raise ConfigurationError(texts.nothing_to_say())
    if message or sent:
        return asyncio.run(
            _say_once(Client(found, user), message or "", timeout, files=sent, save=save, as_json=as_json)
        )
    if as_json or not sys.stdin.isatty():
        text = "" if sys.stdin.isatty() else sys.stdin.read().strip()
        if not text:
            raise CommandError(texts.nothing_to_say())
        return asyncio.run(_say_once(Client(found, user), text, timeout, save=save, as_json=as_json))
    from nightporter.cli.terminal import converse

    return asyncio.run(converse(Client(found, user), settings.home))


async def _say_once(
    client: Client, text: str, seconds: float, *, files: Sequence[Upload] = (), save: Path | None = None, as_json: bool
) -> int:
    message_id = uuid.uuid4().hex
    news = asyncio.Event()
    shown = _Shown(client, save, as_json)
    following = asyncio.create_task(_follow(client, message_id, news, show=not as_json and sys.stderr.isatty()))
    try:
        async with asyncio.timeout(seconds):
            principal = await client.say(text, message_id, files=files, patient=False)
            outcome = await _settled(client, message_id, news, shown)
    except TimeoutError as error:
        raise CommandError(texts.no_answer_in_time(seconds, message_id)) from error
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.close()
    if as_json:
        said = {"message_id": message_id, "principal": principal, "status": outcome.status, "replies": shown.replies}
        print(json.dumps(said, ensure_ascii=False))
    return 0 if outcome.status == "done" or outcome.asks else FAILED


@dataclass
class _Shown:
    """Replies are shown as they come: one may say why the answer itself takes its time."""

    client: Client
    save: Path | None
    as_json: bool
    replies: list[dict[str, Any]] = field(default_factory=list)

    async def add(self, found: Sequence[dict[str, Any]]) -> None:
        for reply in found[len(self.replies) :]:
            complete = await with_files(self.client, reply, self.save)
            if not self.as_json:
                print("\n" * bool(self.replies) + texts.reply(complete), flush=True)
            self.replies.append(complete)


async def _settled(client: Client, message_id: str, news: asyncio.Event, shown: _Shown) -> Outcome:
    told = False
    while True:
        news.clear()
        outcome = await client.outcome(message_id)
        if outcome is not None:
            await shown.add(outcome.replies)
        if outcome is not None and outcome.settled:
            return outcome
        if outcome is not None and outcome.status == "waiting" and not told:
            told = True
            print(texts.waits_for_approval(), file=sys.stderr)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), LOOK_SECONDS)


async def _follow(client: Client, message_id: str, news: asyncio.Event, *, show: bool) -> None:
    async for event in client.events():
        if show and event.kind == "progress":
            print(texts.progress(event.data), end="", file=sys.stderr, flush=True)
        if _ends(event, message_id):
            news.set()


def _ends(event: Event, message_id: str) -> bool:
    """Whether it is time to look again: the message was answered, or something was committed."""
    return event.data.get("message_id") == message_id or event.kind in ("checkpoint.committed", "connected")
