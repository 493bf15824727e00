"""Drafts on Slack: an answer that grows is a stream where there is a thread for it, anything else an edited message.

https://docs.slack.dev/reference/methods/chat.startStream: a stream answers in a thread and ends after some minutes by
itself; what comes after that is edited. Streams carry no metadata until they stop: one of unknown fate is the agent's
only message in the thread without any.
"""

from __future__ import annotations

import contextlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from gateway import texts
from gateway.channel import Refused, Retry
from gateway.drafts import NotNow, NotShown, Showing, Shown
from gateway.slack import outcomes
from gateway.slack.history import DRAFT, TooMuchHistory, look_back, metadata
from gateway.slack.render import MAX_CHARACTERS, render
from gateway.slack.target import Target
from workspace_store.outbox import Reply

PACE_SECONDS = 2.0
"""chat.update is let through 50 times a minute."""
MOST_STREAMED = 11_000
MOST_SHOWN = 3000
STREAMS = 2000
_GLUE = "\u200b"
_CALLING = re.compile(r"<|(?<!\w)@")
NO_STREAM = frozenset({"message_not_in_streaming_state", "streaming_state_conflict", "message_not_found"})


@dataclass
class Drafts:
    """``streams``: the text that each open stream shows."""

    streams: OrderedDict[UUID, str] = field(default_factory=OrderedDict)
    no_streams: set[str] = field(default_factory=set)
    """Accounts in which Slack has refused to begin one."""

    async def show(self, draft: Reply, known: str | None, showing: Showing, target: Target) -> Shown:
        """Post or change a draft. Raises NotShown, NotNow."""
        try:
            if known is None and draft.was_sending:
                with contextlib.suppress(TooMuchHistory):
                    known = await look_back(draft, target, DRAFT, 0)
            if known is None:
                return await self._begin(draft, showing, target)
            if draft.id in self.streams and await self._append(draft, known, showing, target.client):
                return Shown(known)
            await self._edit(draft, known, showing, target)
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            said = outcomes.of_error(error)
            if isinstance(said, Retry) and known is not None:
                return Shown(known, said.seconds or PACE_SECONDS)
            raise (NotShown if isinstance(said, Refused) else NotNow)(said.reason) from error
        return Shown(known)

    async def _begin(self, draft: Reply, showing: Showing, target: Target) -> Shown:
        if showing.grows and target.thread and draft.account not in self.no_streams:
            started = await self._start(draft, showing.text, target)
            if started:
                return Shown(started)
        message: dict[str, Any] = {
            "channel": target.conversation,
            "text": _words(showing),
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": metadata(draft, DRAFT, 0),
        }
        if target.thread:
            message["thread_ts"] = target.thread
        return Shown(str((await target.client.chat_postMessage(**message))["ts"]))

    async def _start(self, draft: Reply, text: str, target: Target) -> str:
        """The id of a stream; empty where Slack lets none begin."""
        data: Mapping[str, Any] = draft.content.get("reply") or {}
        shown = text[:MOST_STREAMED]
        try:
            started = await target.client.chat_startStream(
                channel=target.conversation,
                thread_ts=target.thread,
                recipient_team_id=str(data.get("team") or draft.account),
                recipient_user_id=str(data.get("user") or "") or None,
                markdown_text=harmless(shown),
            )
        except SlackApiError as error:
            if not isinstance(outcomes.of_error(error), Refused):
                raise
            self.no_streams.add(draft.account)
            return ""
        self.streams[draft.id] = shown
        while len(self.streams) > STREAMS:
            self.streams.popitem(last=False)
        return str(started["ts"])

    async def _append(self, draft: Reply, ts: str, showing: Showing, client: AsyncWebClient) -> bool:
        """Whether the stream shows it now; else it is one no more."""
        shown = self.streams[draft.id]
        if showing.grows and showing.text.startswith(shown):
            more = showing.text[len(shown) : MOST_STREAMED]
            try:
                if more:
                    await client.chat_appendStream(channel=draft.conversation, ts=ts, markdown_text=harmless(more))
            except SlackApiError as error:
                if outcomes.error_code(error) not in NO_STREAM:
                    raise
            else:
                self.streams[draft.id] = shown + more
                return True
        await self.stop(draft, ts, client)
        return False

    async def stop(self, draft: Reply, ts: str, client: AsyncWebClient) -> None:
        """End a stream, so that it can be edited; one that has ended by itself is none the worse."""
        self.streams.pop(draft.id, None)
        try:
            await client.chat_stopStream(channel=draft.conversation, ts=ts)
        except SlackApiError as error:
            if outcomes.error_code(error) not in NO_STREAM:
                raise

    async def _edit(self, draft: Reply, ts: str, showing: Showing, target: Target) -> None:
        change: dict[str, Any] = {"channel": target.conversation, "ts": ts, "text": _words(showing)}
        change["metadata"] = metadata(draft, DRAFT, 0)
        try:
            await target.client.chat_update(**change)
        except SlackApiError as error:
            if outcomes.error_code(error) != "streaming_state_conflict":
                raise
            await self.stop(draft, ts, target.client)
            await target.client.chat_update(**change)


def harmless(markdown: str) -> str:
    """Markdown for Slack to read itself, in which nothing calls people, also not over two pieces of a stream."""
    return _CALLING.sub(lambda found: found[0] + _GLUE, markdown)


def _words(showing: Showing) -> str:
    return render(texts.growing(showing.text, MOST_SHOWN), MAX_CHARACTERS)[0].text
