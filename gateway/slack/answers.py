"""Answers that only the sender of a slash command, or whoever pressed a button, sees.

https://docs.slack.dev/interactivity/handling-user-interaction#message_responses: a ``response_url`` takes five answers
in 30 minutes.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp

from gateway.slack.render import render

HOSTS = ("slack.com", "slack-gov.com")


def is_slacks(url: str, api_url: str) -> bool:
    """Whether an address is Slack's own (or the configured API's): tokens and answers go nowhere else."""
    parts, api = urlsplit(url), urlsplit(api_url)
    if (parts.scheme, parts.netloc) == (api.scheme, api.netloc):
        return True
    host = parts.hostname or ""
    return parts.scheme == "https" and any(host == name or host.endswith(f".{name}") for name in HOSTS)


async def only_for_you(session: aiohttp.ClientSession, url: str, markdown: str) -> bool:
    """Answer a slash command so that only its sender sees it; False where that is not possible any more."""
    for chunk in render(markdown):
        answer = {"response_type": "ephemeral", "text": chunk.text, "replace_original": False}
        try:
            async with session.post(url, json=answer) as response:
                if response.status != 200:
                    return False
        except (aiohttp.ClientError, TimeoutError):
            return False
    return True
