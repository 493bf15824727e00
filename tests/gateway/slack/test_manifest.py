"""The app's manifest asks for what the channel uses: a method that is called, an event that is read."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MANIFEST = (ROOT / "deploy" / "slack-manifest.yaml").read_text()
SCOPES = {
    "chat_postMessage": {"chat:write"}, "chat_update": {"chat:write"}, "chat_delete": {"chat:write"},
    "chat_startStream": {"chat:write"}, "chat_appendStream": {"chat:write"}, "chat_stopStream": {"chat:write"},
    "conversations_history": {"channels:history", "groups:history", "im:history", "mpim:history"},
    "conversations_replies": {"channels:history", "groups:history", "im:history", "mpim:history"},
    "conversations_open": {"im:write"}, "files_info": {"files:read"}, "users_info": {"users:read"},
    "assistant_threads_setStatus": {"assistant:write"}, "assistant_threads_setTitle": {"assistant:write"},
    "assistant_threads_setSuggestedPrompts": {"assistant:write"}, "auth_test": set(), "apps_connections_open": set(),
    "files_getUploadURLExternal": {"files:write"}, "files_completeUploadExternal": {"files:write"},
    "files_upload_v2": {"files:write"}, "reactions_add": {"reactions:write"},
}  # fmt: skip
"""https://docs.slack.dev/reference/methods"""


def test_every_method_that_is_called_has_its_scopes() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "gateway" / "slack").glob("*.py"))
    called = set(re.findall(r"\.((?:[a-z]+_)+[a-zA-Z0-9]+)\(", source)) & set(re.findall(r"async def (\w+)\(", _sdk()))
    assert called
    assert called <= SCOPES.keys(), "say which scopes it needs, here and in the manifest"
    listed = set(re.findall(r"^      - ([a-z_]+:[a-z_.]+)", MANIFEST, re.MULTILINE))
    assert {scope for name in called for scope in SCOPES[name]} <= listed


def test_every_event_that_is_read_is_asked_for() -> None:
    source = (ROOT / "gateway" / "slack" / "parse.py").read_text()
    events = {"message.channels", "message.groups", "message.im", "message.mpim"}
    events |= {
        name
        for name in re.findall(r'"([a-z_]+)"', source)
        if name in {
            "app_mention", "reaction_added", "reaction_removed", "assistant_thread_started",
            "assistant_thread_context_changed", "app_uninstalled", "tokens_revoked",
        }
    }  # fmt: skip
    listed = set(re.findall(r"^      - ([a-z_.]+)$", MANIFEST, re.MULTILINE))
    assert events == listed


def _sdk() -> str:
    from slack_sdk.web import async_client

    return Path(str(async_client.__file__)).read_text()
