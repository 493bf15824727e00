"""Sending a reply: as many messages as it needs, each once.

Each message carries the reply's key and its position as metadata, by which an earlier attempt of unknown fate is found
again in the conversation. https://docs.slack.dev/messaging/message-metadata
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from slack_sdk.errors import SlackApiError

from gateway.channel import Outcome, Refused, Retry, Sent, Uncertain, in_doubt, repeatable
from gateway.files import NoFile, Read, files_of
from gateway.parts import Found, send_parts
from gateway.progress import Progress
from gateway.rendering.chunks import Chunk, rendered
from gateway.slack import outcomes
from gateway.slack.drafts import Drafts
from gateway.slack.history import DRAFT, REPLY, TooMuchHistory, look_back, metadata
from gateway.slack.render import MAX_CHARACTERS, render
from gateway.slack.target import Target
from gateway.slack.uploads import NOT_UPLOADED, Uploads
from gateway.texts import file_not_sent
from workspace_store.drafts import draft_of
from workspace_store.outbox import Reply

log = structlog.get_logger()

SECTION_CHARACTERS = 2900
"""https://docs.slack.dev/reference/block-kit/blocks/section-block: 3,000."""
_STYLES = {"approve": "primary", "deny": "danger"}


@dataclass
class Sender:
    """Sends replies. ``progress``: how far each has gone. ``drafts``: what is shown of those to come."""

    progress: Progress
    drafts: Drafts
    uploads: Uploads
    files: Read

    async def send(self, reply: Reply, target: Target) -> Outcome:
        """Send what of a reply has not gone out yet."""
        buttons = _buttons(reply.content.get("buttons"))
        text = str(reply.content.get("text") or "")
        limit = SECTION_CHARACTERS if buttons else MAX_CHARACTERS
        chunks = await rendered(partial(render, limit=limit), text)

        draft = await self._draft(reply, target)
        if isinstance(draft, Uncertain):
            return draft

        files = files_of(reply)
        parts = [*chunks, *(step for file in files for step in (file, file))]

        async def post(part: int) -> str | Retry | Refused | Uncertain:
            if part >= len(chunks):
                return await self._post_file(reply, part, part - len(chunks), target)
            message = _message(reply, part, chunks[part], target, buttons if part == len(chunks) - 1 else [])
            if part == 0 and draft:
                ended = await self._end(reply, draft, message, target)
                if ended is not None:
                    return ended
            return await _post(message, chunks[part], target)

        async def find(part: int) -> Found | Uncertain:
            if part >= len(chunks):
                return await self._find_file(reply, part, part - len(chunks), target)
            return await _find(reply, part, target)

        outcome = await send_parts(reply, parts, self.progress, post, find)
        if draft and not chunks and isinstance(outcome, Sent):
            await self._withdraw(reply, draft, target)
        return outcome

    async def _post_file(self, reply: Reply, part: int, step: int, target: Target) -> str | Retry | Refused | Uncertain:
        """Upload a file (its even steps) or share it (its odd ones); words go out in the place of one that cannot."""
        file = files_of(reply)[step // 2]
        if step % 2:
            before = (await self.progress.sent(reply.id))[part - 1]
            if before.startswith(NOT_UPLOADED):
                return before
            outcome = await self.uploads.share(before, file, target)
        else:
            try:
                outcome = await self.uploads.upload(file, await self.files(reply.principal, file), target)
            except NoFile as error:
                outcome = Refused(str(error))
        if not isinstance(outcome, Refused):
            return outcome
        (chunk, *_) = render(file_not_sent(file.name, outcome.reason))
        said = await _post(_message(reply, part, chunk, target, []), chunk, target)
        return f"{NOT_UPLOADED}{said}" if isinstance(said, str) else said

    async def _find_file(self, reply: Reply, part: int, step: int, target: Target) -> Found | Uncertain:
        """Whether a file was shared, or words in its place; an upload alone nobody has seen."""
        words = await _find(reply, part, target)
        if isinstance(words, Uncertain):
            return words
        if words.external_id:
            return Found(f"{NOT_UPLOADED}{words.external_id}")
        if not step % 2:
            return Found()
        before = (await self.progress.sent(reply.id))[part - 1]
        return Found(before) if before.startswith(NOT_UPLOADED) else await self.uploads.shared(before, target)

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
            return repeatable(outcomes.of_error(error))
        return Sent(reply.edits)

    async def _draft(self, reply: Reply, target: Target) -> str | Uncertain:
        """The ``ts`` of what was shown of this reply; empty where nothing is there to be replaced."""
        known = draft_of(reply.content)
        if known is None or known:
            return known or ""
        try:
            return await look_back(reply, target, DRAFT, 0) or ""
        except TooMuchHistory:
            return ""
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            said = outcomes.of_error(error)
            return "" if isinstance(said, Refused) else in_doubt(said)

    async def _end(
        self, reply: Reply, ts: str, message: dict[str, Any], target: Target
    ) -> str | Retry | Refused | Uncertain | None:
        """Put the final words in a draft's place: its ``ts``; None: it is gone, and they are to be posted."""
        change = {name: message[name] for name in ("channel", "text", "metadata")}
        change |= {"ts": ts, "blocks": message.get("blocks", []), "link_names": False, "parse": "none"}
        for _ in range(2):
            try:
                if reply.id in self.drafts.streams:
                    await self.drafts.stop(reply, ts, target.client)
                await target.client.chat_update(**change)
            except SlackApiError as error:
                code = outcomes.error_code(error)
                if code == "streaming_state_conflict":
                    self.drafts.streams[reply.id] = ""
                    continue
                said = outcomes.of_error(error)
                # Deleted by somebody, or too long or too old to be changed: the words go out all the same.
                return None if isinstance(said, Refused) else said
            except outcomes.CONNECTION_ERRORS as error:
                return outcomes.of_error(error)
            return ts
        return None

    async def _withdraw(self, reply: Reply, ts: str, target: Target) -> None:
        """There is nothing to say in the end."""
        try:
            await target.client.chat_delete(channel=target.conversation, ts=ts)
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            log.info("a draft stays", reason=str(error), reply=str(reply.id))


def _message(reply: Reply, part: int, chunk: Chunk, target: Target, buttons: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {
        "channel": target.conversation,
        "text": chunk.text,
        "unfurl_links": False,
        "unfurl_media": False,
        "link_names": False,
        "parse": "none",
        "metadata": metadata(reply, REPLY, part),
    }
    if target.thread:
        message["thread_ts"] = target.thread
    if buttons:
        section = {"type": "section", "text": {"type": "mrkdwn", "text": chunk.text}}
        message["blocks"] = [section, {"type": "actions", "block_id": "approval", "elements": buttons}]
    return message


async def _post(message: dict[str, Any], chunk: Chunk, target: Target) -> str | Retry | Refused | Uncertain:
    """Post it; in a form that Slack takes, and in the conversation where its thread is gone."""
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


async def _find(reply: Reply, part: int, target: Target) -> Found | Uncertain:
    try:
        return Found(await look_back(reply, target, REPLY, part))
    except TooMuchHistory:
        return Found(unsure=True)
    except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
        known = outcomes.of_error(error)
        # Where reading back is not allowed it is sent once more, and said so.
        return Found(unsure=True) if isinstance(known, Refused) else in_doubt(known)


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
