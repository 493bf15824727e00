"""Reading back: whether a message of unknown fate is in its conversation, by the metadata that ours carry.

https://docs.slack.dev/messaging/message-metadata
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from gateway.slack.target import Target
from workspace_store.outbox import Reply

REPLY = "nightporter_reply"
DRAFT = "nightporter_draft"
PAGES = 5
EARLIER_SECONDS = 60
"""Slack's clock and ours need not agree."""

STREAM_SECONDS = 2


class TooMuchHistory(Exception):
    """It is not in what was read, and there is more."""


def metadata(reply: Reply, kind: str, part: int) -> dict[str, Any]:
    """What a message carries to be found by."""
    return {"event_type": kind, "event_payload": {"reply": reply.id.hex, "part": part}}


async def look_back(reply: Reply, target: Target, kind: str, part: int) -> str | None:
    """The ``ts`` of a message, if it went out. Raises TooMuchHistory; SlackApiError and connection errors."""
    wanted = metadata(reply, kind, part)
    bare = []
    async for message in _since(reply, target):
        found = message.get("metadata") or {}
        if found.get("event_type") == kind and found.get("event_payload") == wanted["event_payload"]:
            return str(message["ts"])
        if kind == DRAFT and not found and _is_bare(message, reply, target):
            bare.append(str(message["ts"]))
    # A stream that nobody has recorded: only if it can be no other.
    return bare[0] if kind == DRAFT and target.thread and len(bare) == 1 else None


def _is_bare(message: Mapping[str, Any], reply: Reply, target: Target) -> bool:
    """A message of the agent that may be a stream of this reply."""
    if not target.bot or message.get("user") != target.bot or message.get("files"):
        return False
    return float(message["ts"]) >= reply.queued_at / 1e6 - STREAM_SECONDS


async def _since(reply: Reply, target: Target) -> AsyncIterator[Mapping[str, Any]]:
    query: dict[str, Any] = {
        "channel": target.conversation,
        "include_all_metadata": True,
        "oldest": f"{reply.queued_at / 1e6 - EARLIER_SECONDS:.6f}",
        "limit": 200,
    }
    cursor = ""
    for _ in range(PAGES):
        if target.thread:
            page = await target.client.conversations_replies(ts=target.thread, cursor=cursor or None, **query)
        else:
            page = await target.client.conversations_history(cursor=cursor or None, **query)
        for message in page.get("messages") or []:
            yield message
        cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
        if not cursor:
            return
    raise TooMuchHistory
