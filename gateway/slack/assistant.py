"""Threads with the assistant, as Slack's side pane shows them: a greeting, a status, a title, and where people look.

https://docs.slack.dev/ai/developing-ai-apps. All of it is a kindness, after the acknowledgement, that may fail.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import structlog
from slack_sdk.web.async_client import AsyncWebClient

from gateway.slack import texts
from gateway.slack.parsed import Parsed
from router.envelope import Envelope

log = structlog.get_logger()

MOST = 10_000


@dataclass
class Assistant:
    """Remembers what lasts no longer than people look: bounded, and lost with the process."""

    _viewed: OrderedDict[tuple[str, str], str] = field(default_factory=OrderedDict)
    _untitled: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)

    def looking_at(self, channel: str | None, thread: str | None) -> str:
        """What a person has before them while they write; empty where that is not known."""
        found = self._viewed.get((channel or "", thread or ""))
        return texts.looking_at(found) if found else ""

    async def welcome(self, client: AsyncWebClient, parsed: Parsed) -> None:
        """Greet in a thread that was opened."""
        channel, thread = parsed.channel or "", parsed.thread or ""
        _remember(self._untitled, (channel, thread), None)
        self._look(parsed)
        greeting = {"event_type": "nightporter_welcome", "event_payload": {"thread": thread}}
        try:
            await client.chat_postMessage(channel=channel, thread_ts=thread, text=texts.WELCOME, metadata=greeting)
        except Exception as error:
            log.info("no welcome", reason=str(error))
        await self._suggest(client, channel, thread)

    async def viewing(self, client: AsyncWebClient, parsed: Parsed) -> None:
        """They look at something else."""
        self._look(parsed)
        await self._suggest(client, parsed.channel or "", parsed.thread or "")

    async def working(self, client: AsyncWebClient, envelope: Envelope) -> None:
        """Say that it is being worked on; Slack ends this with the next message. The first words name the thread."""
        where: dict[str, Any] = {"channel_id": envelope.conversation, "thread_ts": envelope.thread}
        try:
            await client.assistant_threads_setStatus(**where, status=texts.WORKING)
        except Exception as error:
            log.debug("no status", reason=str(error))
        key = (envelope.conversation, envelope.thread)
        if key not in self._untitled or not envelope.text.strip():
            return
        del self._untitled[key]
        try:
            await client.assistant_threads_setTitle(**where, title=texts.title(envelope.text))
        except Exception as error:
            log.debug("no title", reason=str(error))

    def _look(self, parsed: Parsed) -> None:
        if viewing := parsed.details.get("viewing"):
            _remember(self._viewed, (parsed.channel or "", parsed.thread or ""), str(viewing))

    async def _suggest(self, client: AsyncWebClient, channel: str, thread: str) -> None:
        prompts: list[dict[str, str]] = [{"title": title, "message": message} for title, message in texts.PROMPTS]
        try:
            await client.assistant_threads_setSuggestedPrompts(channel_id=channel, thread_ts=thread, prompts=prompts)
        except Exception as error:
            log.debug("no prompts", reason=str(error))


def _remember(memory: OrderedDict[tuple[str, str], Any], key: tuple[str, str], value: object) -> None:
    memory[key] = value
    while len(memory) > MOST:
        memory.popitem(last=False)
