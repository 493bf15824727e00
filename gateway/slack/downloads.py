"""Files of people, fetched with the bot's token from Slack's hosts only, redirects not followed.

https://docs.slack.dev/reference/objects/file-object: ``url_private`` wants the token as bearer; without the right scope
Slack answers with its sign-in page, which is never a file.
"""

from __future__ import annotations

from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError

from gateway.channel import Refused, Retry
from gateway.files import Fetched, NoFile, NotYet
from gateway.slack import answers, outcomes, texts
from gateway.slack.installations import Installation
from gateway.texts import file_too_large

CHUNK = 1 << 16
DOWNLOAD_SECONDS = 55.0
HTML = ("text/html", "application/xhtml+xml")


async def fetch(
    session: aiohttp.ClientSession, installation: Installation, api_url: str, file: str, most: int
) -> Fetched:
    """A file by its id. Raises NoFile and NotYet."""
    try:
        info = (await installation.client.files_info(file=file)).get("file") or {}
        return await _download(session, installation, api_url, info, most)
    except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
        known = outcomes.of_error(error)
        if isinstance(known, Refused):
            raise NoFile(known.reason) from error
        raise NotYet(known.reason, known.seconds if isinstance(known, Retry) else None) from error


async def _download(
    session: aiohttp.ClientSession, installation: Installation, api_url: str, info: dict[str, Any], most: int
) -> Fetched:
    url = str(info.get("url_private_download") or info.get("url_private") or "")
    content_type, size = str(info.get("mimetype") or ""), int(info.get("size") or 0)
    if not answers.is_slacks(url, api_url):
        raise NoFile(texts.KEPT_ELSEWHERE)
    if size > most:
        raise NoFile(file_too_large(most))
    headers = {"Authorization": f"Bearer {installation.client.token}"}
    patience = aiohttp.ClientTimeout(total=DOWNLOAD_SECONDS)
    async with session.get(url, headers=headers, allow_redirects=False, timeout=patience) as response:
        if response.status == 429 or response.status >= 500:
            raise NotYet(texts.unreachable(f"HTTP {response.status}"))
        if response.status != 200:
            raise NoFile(texts.SIGN_IN_PAGE if response.status < 404 else texts.refused(f"HTTP {response.status}"))
        content = bytearray()
        async for part in response.content.iter_chunked(CHUNK):
            content += part
            if len(content) > most:
                raise NoFile(file_too_large(most))
        # A page where no page was announced, or another one than was: what people see who are not signed in.
        if response.content_type in HTML and (content_type not in HTML or (size and len(content) != size)):
            raise NoFile(texts.SIGN_IN_PAGE)
    return Fetched(bytes(content), str(info.get("name") or ""), content_type)
