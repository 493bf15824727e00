"""A local Slack: the Web API that the channel uses, signed events, and Socket Mode, with faults on demand.

https://docs.slack.dev/reference/methods, https://docs.slack.dev/apis/events-api/using-socket-mode
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import WSMsgType, web

from nightporter.testing.web import Fault, PlatformServer, hang_up

SIGNING_SECRET = "local-signing-secret"
BOT_TOKEN = "xoxb-local"
APP_TOKEN = "xapp-local"


class SlackServer(PlatformServer):
    """One workspace ``team`` in which the agent is ``bot_user`` with ``bot_id``. ``messages``: all that were posted."""

    def __init__(self, team: str = "T1", bot_user: str = "UAGENT", bot_id: str = "BAGENT") -> None:
        super().__init__()
        self.team, self.bot_user, self.bot_id = team, bot_user, bot_id
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.acknowledged: list[str] = []
        self.direct: dict[str, str] = {}
        self.ephemeral: list[dict[str, Any]] = []
        self.files: dict[str, tuple[dict[str, Any], bytes]] = {}
        self.sign_in = False
        """Downloads show the page that asks to sign in, as where a permission lacks."""
        self.fail_files: deque[Callable[[], web.StreamResponse]] = deque()
        """What the next downloads meet, one each."""
        self.people: dict[str, dict[str, Any]] = {}
        """User id → what ``users.info`` says of them."""
        self.workspaces: dict[str, tuple[str, str, str]] = {}
        """Further bot tokens: token → team, the agent's user id and bot id there."""
        self.tokens: list[tuple[str, str]] = []
        """(method, token) of all calls."""
        self._sockets: list[web.WebSocketResponse] = []
        self._numbers = itertools.count(1)
        self._ts = itertools.count(1)

    @property
    def api_url(self) -> str:
        return f"{self.origin}/api/"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/{method}", self._call),
            web.get("/api/{method}", self._call),
            web.get("/socket", self._socket),
            web.post("/response/{id}", self._response_url),
            web.get("/files/{id}", self._file),
            web.post("/upload/{id}", self._upload),
        ]

    # The Web API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method, said = request.match_info["method"], await _arguments(request)
        self.record(method, said)
        fault = self.fault_of(method, said)
        if fault is not None and fault.kind != "lose_response":
            return self._failed(request, fault)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or said.get("token")
        self.tokens.append((method, str(token)))
        if token not in {BOT_TOKEN, APP_TOKEN, *self.workspaces}:
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if method == "auth.test" and token in self.workspaces:
            team, user, bot = self.workspaces[str(token)]
            return web.json_response({"ok": True, "team_id": team, "user_id": user, "bot_id": bot})
        handler = getattr(self, "_" + method.replace(".", "_"), None)
        answer = handler(said) if handler else {"ok": True}
        if fault is not None:
            hang_up(request)
        return web.json_response(answer)

    def _failed(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.kind == "rate_limit":
            headers = {"Retry-After": f"{fault.seconds:g}"}
            return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)
        if fault.kind == "refuse":
            return web.json_response({"ok": False, "error": fault.reason})
        if fault.kind == "lose_request":
            hang_up(request)
        return web.Response(status=fault.status, text="upstream error")

    def _auth_test(self, said: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "team_id": self.team, "user_id": self.bot_user, "bot_id": self.bot_id}

    def _chat_postMessage(self, said: dict[str, Any]) -> dict[str, Any]:
        channel = str(said["channel"])
        message: dict[str, Any] = {
            **{name: said[name] for name in ("text", "thread_ts", "metadata", "blocks") if name in said},
            "type": "message",
            "user": self.bot_user,
            "bot_id": self.bot_id,
            "ts": self.next_ts(),
        }
        self.messages.setdefault(channel, []).append(message)
        return {"ok": True, "channel": channel, "ts": message["ts"], "message": message}

    def _chat_update(self, said: dict[str, Any]) -> dict[str, Any]:
        message = self._own(said)
        if message is None:
            return {"ok": False, "error": "message_not_found"}
        if message.get("streaming"):
            return {"ok": False, "error": "streaming_state_conflict"}
        if len(str(said.get("text", ""))) > 4000:
            return {"ok": False, "error": "msg_too_long"}
        message |= {name: said[name] for name in ("text", "blocks", "metadata") if name in said}
        message["edited"] = {"user": self.bot_user, "ts": self.next_ts()}
        return {"ok": True, "ts": said["ts"]}

    def _chat_delete(self, said: dict[str, Any]) -> dict[str, Any]:
        message = self._own(said)
        if message is None:
            return {"ok": False, "error": "message_not_found"}
        self.messages[str(said["channel"])].remove(message)
        return {"ok": True, "ts": said["ts"]}

    def _own(self, said: Mapping[str, Any]) -> dict[str, Any] | None:
        everything = self.messages.get(str(said["channel"]), [])
        return next((message for message in everything if message["ts"] == said["ts"]), None)

    # Streams: https://docs.slack.dev/reference/methods/chat.startStream. Their text stays markdown here.

    def _chat_startStream(self, said: dict[str, Any]) -> dict[str, Any]:
        if not said.get("thread_ts"):
            return {"ok": False, "error": "invalid_arguments"}
        if not said.get("recipient_user_id") and not str(said["channel"]).startswith("D"):
            return {"ok": False, "error": "missing_recipient_user_id"}
        text = str(said.get("markdown_text") or "")
        answer = self._chat_postMessage({"channel": said["channel"], "thread_ts": said["thread_ts"], "text": text})
        answer["message"]["streaming"] = True
        return answer

    def _chat_appendStream(self, said: dict[str, Any]) -> dict[str, Any]:
        message = self._own(said)
        if message is None:
            return {"ok": False, "error": "message_not_found"}
        if not message.get("streaming"):
            return {"ok": False, "error": "message_not_in_streaming_state"}
        message["text"] += str(said.get("markdown_text") or "")
        return {"ok": True, "ts": said["ts"]}

    def _chat_stopStream(self, said: dict[str, Any]) -> dict[str, Any]:
        answer = self._chat_appendStream(said)
        if answer["ok"] and (message := self._own(said)):
            message["streaming"] = False
            message |= {name: said[name] for name in ("metadata", "blocks") if name in said}
        return answer

    def end_streams(self) -> None:
        """Close all streams, as Slack does by itself after some minutes."""
        for messages in self.messages.values():
            for message in messages:
                message.pop("streaming", None)

    def _conversations_open(self, said: dict[str, Any]) -> dict[str, Any]:
        user = str(said["users"])
        return {"ok": True, "channel": {"id": self.direct.setdefault(user, f"D{user}")}}

    def _conversations_history(self, said: dict[str, Any]) -> dict[str, Any]:
        found = [item for item in self.messages.get(str(said["channel"]), []) if "thread_ts" not in item]
        return {"ok": True, "messages": found[::-1], "has_more": False}

    def _conversations_replies(self, said: dict[str, Any]) -> dict[str, Any]:
        everything = self.messages.get(str(said["channel"]), [])
        found = [item for item in everything if said["ts"] in {item["ts"], item.get("thread_ts")}]
        return {"ok": True, "messages": found, "has_more": False}

    def _users_info(self, said: dict[str, Any]) -> dict[str, Any]:
        found = self.people.get(str(said["user"]))
        return (
            {"ok": True, "user": {"id": said["user"], **found}} if found else {"ok": False, "error": "user_not_found"}
        )

    def _files_info(self, said: dict[str, Any]) -> dict[str, Any]:
        found = self.files.get(str(said["file"]))
        return {"ok": True, "file": found[0]} if found else {"ok": False, "error": "file_not_found"}

    def _files_getUploadURLExternal(self, said: dict[str, Any]) -> dict[str, Any]:
        if int(said["length"]) <= 0:
            return {"ok": False, "error": "invalid_arguments"}
        identifier = f"FUP{next(self._numbers)}"
        self.add_file(identifier, str(said["filename"]), "application/octet-stream", b"")
        return {"ok": True, "file_id": identifier, "upload_url": f"{self.origin}/upload/{identifier}"}

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        identifier, content = request.match_info["id"], await request.read()
        if request.headers.get("Authorization"):
            return web.Response(status=400, text="the address alone is the permission")
        self.files[identifier] = ({**self.files[identifier][0], "size": len(content)}, content)
        return web.Response(text=f"OK - {len(content)}")

    def _files_completeUploadExternal(self, said: dict[str, Any]) -> dict[str, Any]:
        given = json.loads(said["files"]) if isinstance(said["files"], str) else said["files"]
        channel = str(said["channel_id"])
        for item in given:
            info, _ = self.files[item["id"]]
            if info.get("shares"):
                return {"ok": False, "error": "file_already_shared"}
            thread = {"thread_ts": said["thread_ts"]} if said.get("thread_ts") else {}
            message = {
                "type": "message", "user": self.bot_user, "bot_id": self.bot_id, "ts": self.next_ts(), "text": "",
                "files": [{"id": item["id"], "name": info["name"], "title": item.get("title")}], **thread,
            }  # fmt: skip
            self.messages.setdefault(channel, []).append(message)
            info["shares"] = {"private": {channel: [{"ts": message["ts"], **thread}]}}
        return {"ok": True, "files": given}

    def shared(self, channel: str) -> list[tuple[str, bytes, str]]:
        """(name, content, thread) of each file that the bot shared in a conversation."""
        return [
            (file["name"], self.files[file["id"]][1], str(message.get("thread_ts") or ""))
            for message in self.messages.get(channel, [])
            for file in message.get("files", [])
        ]

    def _apps_connections_open(self, said: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "url": f"{self.origin.replace('http', 'ws', 1)}/socket"}

    async def _response_url(self, request: web.Request) -> web.StreamResponse:
        self.ephemeral.append({"id": request.match_info["id"], **await request.json()})
        return web.Response(text="ok")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        found = self.files.get(request.match_info["id"])
        if self.fail_files:
            return self.fail_files.popleft()()
        if self.sign_in or found is None or request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}":
            return web.Response(text="<html>Sign in to Slack</html>", content_type="text/html")
        return web.Response(body=found[1], content_type=str(found[0]["mimetype"]))

    def add_file(self, identifier: str, name: str, content_type: str, content: bytes) -> None:
        """A file that somebody uploaded."""
        info = {"id": identifier, "name": name, "mimetype": content_type, "size": len(content)}
        self.files[identifier] = ({**info, "url_private": f"{self.origin}/files/{identifier}"}, content)

    # Deliveries

    def next_ts(self) -> str:
        return f"{int(time.time())}.{next(self._ts):06d}"

    def message(self, text: str, *, channel: str = "D1", user: str = "UANN", **more: Any) -> dict[str, Any]:
        """An Events API body of a message somebody says."""
        ts = more.pop("ts", None) or self.next_ts()
        if channel.startswith("D"):
            self.direct[user] = channel
        return self.event({"type": "message", "user": user, "text": text, "channel": channel, "ts": ts, **more})

    def event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """An Events API body."""
        installed = {"team_id": self.team, "user_id": self.bot_user, "is_bot": True, "is_enterprise_install": False}
        return {
            "type": "event_callback",
            "team_id": self.team,
            "api_app_id": "A1",
            "event": {"event_ts": event.get("ts", "1.0"), **event},
            "event_id": f"Ev{next(self._numbers)}",
            "authorizations": [installed],
        }

    def pressed(
        self, action: str, value: str, message: Mapping[str, Any], channel: str = "D1", user: str = "UANN"
    ) -> dict[str, Any]:
        """A ``block_actions`` body: somebody presses a button of a message."""
        return {
            "type": "block_actions",
            "team": {"id": self.team},
            "user": {"id": user, "team_id": self.team},
            "channel": {"id": channel},
            "container": {"type": "message", "message_ts": message["ts"], "channel_id": channel},
            "message": dict(message),
            "response_url": f"{self.origin}/response/{next(self._numbers)}",
            "actions": [{"type": "button", "action_id": action, "value": value, "action_ts": self.next_ts()}],
        }

    def command(self, text: str, channel: str = "C1", command: str = "/nightporter") -> dict[str, str]:
        """The form of a slash command."""
        number = str(next(self._numbers))
        return {
            "command": command,
            "text": text,
            "team_id": self.team,
            "channel_id": channel,
            "user_id": "UANN",
            "trigger_id": f"1.2.{number}",
            "response_url": f"{self.origin}/response/{number}",
        }

    async def post(
        self, url: str, body: Mapping[str, Any], *, age: int = 0, secret: str = SIGNING_SECRET
    ) -> tuple[int, str]:
        """Deliver a signed body to ``/slack/events``, ``age`` seconds late: (status, text of the answer)."""
        kind = body.get("type", "")
        headers = {"Content-Type": "application/json"}
        raw = json.dumps(body)
        if "command" in body or kind in {"block_actions", "view_submission", "shortcut", "message_action"}:
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            raw = urlencode(body if "command" in body else {"payload": raw})
        headers |= sign(raw, secret, int(time.time()) - age)
        async with aiohttp.ClientSession() as session, session.post(url, data=raw.encode(), headers=headers) as answer:
            return answer.status, await answer.text()

    # Socket Mode

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        self._sockets.append(socket)
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                self.acknowledged.append(str(json.loads(message.data).get("envelope_id")))
        self._sockets.remove(socket)
        return socket

    @property
    def connections(self) -> int:
        return len(self._sockets)

    async def push(self, body: Mapping[str, Any], *, attempt: int = 0, envelope_id: str = "") -> str:
        """Deliver a body over the newest Socket Mode connection; its envelope's id."""
        envelope_id = envelope_id or f"envelope-{next(self._numbers)}"
        kind = "slash_commands" if "command" in body else "events_api" if "event" in body else "interactive"
        envelope = {"envelope_id": envelope_id, "type": kind, "payload": dict(body), "accepts_response_payload": False}
        await self._sockets[-1].send_json({**envelope, "retry_attempt": attempt, "retry_reason": ""})
        return envelope_id

    async def refresh(self) -> None:
        """Ask the client for a new connection, as Slack does every few hours."""
        await self._sockets[-1].send_json({"type": "disconnect", "reason": "refresh_requested"})

    async def drop(self) -> None:
        """Lose all Socket Mode connections, as a broken network does."""
        for socket in list(self._sockets):
            transport = socket._req.transport if socket._req is not None else None
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)


def sign(raw: str, secret: str, timestamp: int) -> dict[str, str]:
    """https://docs.slack.dev/authentication/verifying-requests-from-slack"""
    base = f"v0:{timestamp}:{raw}"
    signature = "v0=" + hmac.new(secret.encode(), base.encode(), hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": signature}


async def _arguments(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        found = await request.json()
        return dict(found) if isinstance(found, dict) else {}
    said: dict[str, Any] = {**request.query, **{name: str(value) for name, value in (await request.post()).items()}}
    for name in ("metadata", "blocks", "prompts"):
        if isinstance(said.get(name), str):
            said[name] = json.loads(said[name])
    return said
