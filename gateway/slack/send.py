"""Sending a reply: as many messages as it needs, each once.

Each message carries the reply's key and its position as metadata, by which an earlier attempt of unknown fate is found
again in the conversation. https://docs.slack.dev/messaging/message-metadata
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from gateway.channel import Outcome, Refused, Retry, Sent, Uncertain
from gateway.parts import Found, send_parts
from gateway.progress import Progress
from gateway.rendering.chunks import Chunk
from gateway.slack import outcomes
from gateway.slack.render import render
from workspace_store.outbox import Reply

EVENT_TYPE = "nightporter_reply"
PAGES = 5
SECTION_CHARACTERS = 2900
"""https://docs.slack.dev/reference/block-kit/blocks/section-block: 3,000."""
_STYLES = {"approve": "primary", "deny": "danger"}


@dataclass(frozen=True)
class Target:
    """Where the messages of a reply go."""

    client: AsyncWebClient
    conversation: str
    thread: str


@dataclass
class Sender:
    """Sends replies. ``progress``: how far each has gone."""

    progress: Progress

    async def send(self, reply: Reply, target: Target) -> Outcome:
        """Send what of a reply has not gone out yet."""
        buttons = _buttons(reply.content.get("buttons"))
        text = str(reply.content.get("text") or "")
        chunks = render(text, SECTION_CHARACTERS) if buttons else render(text)

        async def post(part: int) -> str | Retry | Refused | Uncertain:
            last = part == len(chunks) - 1
            return await self._post(reply, part, chunks[part], target, buttons if last else [])

        async def find(part: int) -> Found | Uncertain:
            return await self._find(reply, part, target)

        return await send_parts(reply, chunks, self.progress, post, find)

    async def edit(self, reply: Reply, target: Target) -> Outcome:
        """Put a reply in the place of an earlier message, without buttons. Doing it twice changes nothing."""
        if not reply.edits:
            return Sent(None)
        (chunk, *_) = render(str(reply.content.get("text") or ""), SECTION_CHARACTERS)
        section = {"type": "section", "text": {"type": "mrkdwn", "text": chunk.text}}
        try:
            await target.client.chat_update(
                channel=target.conversation, ts=reply.edits, text=chunk.text, blocks=[section], link_names=False
            )
        except SlackApiError as error:
            # What was deleted needs no edit.
            return Sent(None) if outcomes.error_code(error) in outcomes.GONE else outcomes.of_error(error)
        except outcomes.CONNECTION_ERRORS as error:
            known = outcomes.of_error(error)
            return Retry(known.reason) if isinstance(known, Uncertain) else known
        return Sent(reply.edits)

    async def _post(
        self, reply: Reply, part: int, chunk: Chunk, target: Target, buttons: list[dict[str, Any]]
    ) -> str | Retry | Refused | Uncertain:
        message: dict[str, Any] = {
            "channel": target.conversation,
            "text": chunk.text,
            "unfurl_links": False,
            "unfurl_media": False,
            "link_names": False,
            "parse": "none",
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"key": reply.key, "part": part}},
        }
        if target.thread:
            message["thread_ts"] = target.thread
        if buttons:
            section = {"type": "section", "text": {"type": "mrkdwn", "text": chunk.text}}
            message["blocks"] = [section, {"type": "actions", "block_id": "approval", "elements": buttons}]
        for change in ({}, {"text": chunk.plain, "mrkdwn": False, "blocks": None}, {"thread_ts": None}):
            message |= change
            given = {name: value for name, value in message.items() if value is not None}
            try:
                answer = await target.client.chat_postMessage(**given)
            except SlackApiError as error:
                code = outcomes.error_code(error)
                if code in outcomes.FORM | outcomes.THREAD_GONE and change != {"thread_ts": None}:
                    continue
                return outcomes.of_error(error)
            except outcomes.CONNECTION_ERRORS as error:
                return outcomes.of_error(error)
            return str(answer["ts"])
        return Refused("Slack accepts the message in no form")

    async def _find(self, reply: Reply, part: int, target: Target) -> Found | Uncertain:
        """Look for a message by its metadata."""
        query: dict[str, Any] = {
            "channel": target.conversation,
            "include_all_metadata": True,
            "oldest": f"{reply.queued_at / 1e6 - 60:.6f}",
            "limit": 200,
        }
        cursor = ""
        for _ in range(PAGES):
            try:
                if target.thread:
                    page = await target.client.conversations_replies(ts=target.thread, cursor=cursor or None, **query)
                else:
                    page = await target.client.conversations_history(cursor=cursor or None, **query)
            except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
                known = outcomes.of_error(error)
                # Where reading back is not allowed it is sent once more, and said so.
                return Found(unsure=True) if isinstance(known, Refused) else Uncertain(known.reason)
            found = _ts_of(page.get("messages") or [], reply.key, part)
            if found:
                return Found(found)
            cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return Found()
        return Found(unsure=True)


def _ts_of(messages: Sequence[Mapping[str, Any]], key: str, part: int) -> str | None:
    for message in messages:
        metadata = message.get("metadata") or {}
        payload = metadata.get("event_payload") or {}
        if metadata.get("event_type") == EVENT_TYPE and (payload.get("key"), payload.get("part")) == (key, part):
            return str(message["ts"])
    return None


def _buttons(given: object) -> list[dict[str, Any]]:
    """``content["buttons"]``: a list of ``{"action", "value", "label"}``. Their ids must differ within a block."""
    found: list[dict[str, Any]] = []
    for number, item in enumerate(given if isinstance(given, list) else []):
        action = str(item["action"])
        taken = any(button["action_id"] == action for button in found)
        button = {
            "type": "button",
            "action_id": f"{action}:{number}" if taken else action,
            "value": str(item["value"]),
            "text": {"type": "plain_text", "text": str(item["label"])[:75]},
        }
        found.append({**button, "style": _STYLES[action]} if action in _STYLES else button)
    return found
