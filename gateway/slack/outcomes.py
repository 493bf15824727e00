"""What an answer of Slack's Web API, or its absence, says about a message: sent, to be tried again, never, unknown.

https://docs.slack.dev/reference/methods/chat.postMessage#errors and https://docs.slack.dev/apis/web-api/rate-limits
"""

from __future__ import annotations

import aiohttp
from slack_sdk.errors import SlackApiError

from gateway.channel import Refused, Retry, Uncertain
from gateway.slack import texts

CREDENTIALS = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"})
CREDENTIALS_RETRY_SECONDS = 300.0
UNKNOWN_FATE = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
FORM = frozenset(
    {"invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "markdown_text_conflict"}
)
"""The message's form is refused: the same content may pass as plain text."""
THREAD_GONE = frozenset({"thread_not_found", "cannot_reply_to_message", "message_not_found"})
GONE = frozenset({"message_not_found", "cant_update_message", "channel_not_found", "thread_not_found"})
"""There is nothing to edit any more."""

CONNECTION_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)


def error_code(error: SlackApiError) -> str:
    """Slack's word for what is wrong; empty where there is none (a proxy's page, a body that is no JSON)."""
    # The SDK's own ``get`` fails where the body is text.
    data = getattr(error.response, "data", None)
    found = data.get("error") if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""


def of_error(error: Exception) -> Retry | Refused | Uncertain:
    """What is known of a message whose sending raised ``error``."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return Retry(texts.unreachable(str(error)), outage=True)
    if not isinstance(error, SlackApiError):
        return Uncertain(texts.unreachable(f"{type(error).__name__} {error}".strip()), outage=True)
    code = error_code(error)
    status = int(getattr(error.response, "status_code", 0) or getattr(error.response, "status", 0) or 0)
    if status == 429 or code in {"ratelimited", "rate_limited"}:
        return Retry("Slack asks to wait", _retry_after(error))
    if status >= 500 or code in UNKNOWN_FATE or not code:
        return Uncertain(texts.unreachable(code or f"HTTP {status}"), outage=True)
    if code in CREDENTIALS:
        return Retry(texts.bad_credentials(code), CREDENTIALS_RETRY_SECONDS)
    return Refused(texts.refused(code))


def _retry_after(error: SlackApiError) -> float:
    headers = getattr(error.response, "headers", {}) or {}
    value = next((headers[name] for name in headers if name.lower() == "retry-after"), "1")
    try:
        return max(float(value), 0.5)
    except ValueError:
        return 1.0
