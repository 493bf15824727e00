"""Files of a reply: each uploaded, which nobody sees, and then shared in its conversation, which is one message.

https://docs.slack.dev/messaging/working-with-files#upload: ``files.getUploadURLExternal``, the bytes to the address it
names, ``files.completeUploadExternal``. The file's id is recorded between the two: a share of unknown fate is looked
up by it, an upload is repeated without harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError

from gateway.channel import Refused, Retry, Uncertain, in_doubt, repeatable
from gateway.files import OutgoingFile
from gateway.parts import Found
from gateway.slack import answers, outcomes, texts
from gateway.slack.target import Target

UPLOAD_SECONDS = 120.0
NOT_UPLOADED = "!"
"""Stands before the ``ts`` of the words that went out in a file's place."""


@dataclass(frozen=True)
class Uploads:
    """``api_url``: where Slack's own addresses are told from others by."""

    session: aiohttp.ClientSession
    api_url: str

    async def upload(self, file: OutgoingFile, content: bytes, target: Target) -> str | Retry | Refused:
        """Bring the bytes to Slack: the file's id there. Nobody sees it yet, so any doubt is a new try."""
        try:
            given = await target.client.files_getUploadURLExternal(filename=file.name, length=len(content))
            url = str(given["upload_url"])
            if not answers.is_slacks(url, self.api_url):
                return Refused(texts.refused("its upload address is not Slack's"))
            patience = aiohttp.ClientTimeout(total=UPLOAD_SECONDS)
            async with self.session.post(url, data=content, allow_redirects=False, timeout=patience) as response:
                if response.status != 200:
                    return Retry(texts.unreachable(f"HTTP {response.status}"), outage=True)
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            return repeatable(outcomes.of_error(error))
        return str(given["file_id"])

    async def share(self, identifier: str, file: OutgoingFile, target: Target) -> str | Retry | Refused | Uncertain:
        """Share an uploaded file where the reply goes: the file's id."""
        where: dict[str, Any] = {"channel_id": target.conversation}
        if target.thread:
            where["thread_ts"] = target.thread
        try:
            await target.client.files_completeUploadExternal(files=[{"id": identifier, "title": file.name}], **where)
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            return outcomes.of_error(error)
        return identifier

    async def shared(self, identifier: str, target: Target) -> Found | Uncertain:
        """Whether a file was shared in the conversation."""
        try:
            file = (await target.client.files_info(file=identifier)).get("file") or {}
        except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
            known = outcomes.of_error(error)
            return Found(unsure=True) if isinstance(known, Refused) else in_doubt(known)
        places = [*(file.get("channels") or []), *(file.get("groups") or []), *(file.get("ims") or [])]
        for kind in (file.get("shares") or {}).values():
            places += list(kind)
        return Found(identifier if target.conversation in places else None)
