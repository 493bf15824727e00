"""Files of people, fetched with the bot's token from Slack's hosts only.

https://docs.slack.dev/reference/objects/file-object: ``url_private`` wants the token as bearer; without the right scope
Slack answers with its sign-in page, which is never a file.
"""

from __future__ import annotations

import aiohttp

from gateway.slack import answers
from gateway.slack.installations import Installation

CHUNK = 1 << 16


class NoFile(Exception):
    """A file that cannot be had, with the reason for a person."""


async def fetch(
    session: aiohttp.ClientSession, installation: Installation, api_url: str, file: str, most: int
) -> tuple[str, str, bytes]:
    """(name, content type, content) of a file by its id. Raises NoFile; SlackApiError and connection errors."""
    info = (await installation.client.files_info(file=file)).get("file") or {}
    url = str(info.get("url_private_download") or info.get("url_private") or "")
    name, content_type = str(info.get("name") or file), str(info.get("mimetype") or "")
    if not answers.is_slacks(url, api_url):
        raise NoFile(f"{name} is not kept by Slack")
    if int(info.get("size") or 0) > most:
        raise NoFile(f"{name} is larger than {most:,} bytes")
    headers = {"Authorization": f"Bearer {installation.client.token}"}
    async with session.get(url, headers=headers, allow_redirects=False) as response:
        if response.status != 200:
            raise NoFile(f"{name}: Slack answered {response.status}")
        if response.content_type == "text/html" and content_type != "text/html":
            raise NoFile(f"{name}: Slack shows its sign-in page; the app lacks `files:read`")
        content = bytearray()
        async for part in response.content.iter_chunked(CHUNK):
            content += part
            if len(content) > most:
                raise NoFile(f"{name} is larger than {most:,} bytes")
    return name, content_type, bytes(content)
