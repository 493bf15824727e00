"""A local Telegram: the Bot API methods that the channel uses, polling and webhook, with faults on demand.

https://core.telegram.org/bots/api. Texts are checked as Telegram does: well-formed HTML, at most 4,096 UTF-16 units.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp import web

from nightporter.testing.rendering import Markup, utf16
from nightporter.testing.web import Fault, PlatformServer, hang_up

TOKEN = "7:local"
BOT = {"id": 7, "is_bot": True, "first_name": "Porter", "username": "porter_bot"}
ANN = {"id": 5, "is_bot": False, "first_name": "Ann"}


class TelegramServer(PlatformServer):
    """``messages``: all that the bot sent, as they are now; ``drafts``: all previews.

    ``confirmed``: the newest update that was confirmed by an offset.
    """

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []
        self.drafts: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.confirmed = 0
        self.webhook: dict[str, Any] = {}
        self.webhook_trouble: dict[str, Any] = {}
        """What ``getWebhookInfo`` says besides."""
        self.commands: dict[str, list[str]] = {}
        """Scope → names."""
        self.blocked: set[int] = set()
        """Chats that the bot cannot speak in."""
        self.upgraded: dict[int, int] = {}
        """Groups that became supergroups: old id → new id."""
        self.files: dict[str, bytes] = {}
        self._numbers = itertools.count(1001)
        self._message_ids = itertools.count(1)
        self._news = asyncio.Event()
        self._polls = 0

    @property
    def api_url(self) -> str:
        return self.origin

    def routes(self) -> list[web.RouteDef]:
        return [
            web.route("*", "/bot{token}/{method}", self._call),
            web.get("/file/bot{token}/{path:.*}", self._file),
        ]

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method, said = request.match_info["method"], await _arguments(request)
        self.record(method, said)
        if request.match_info["token"] != TOKEN:
            return _error(401, "Unauthorized")
        fault = self.fault_of(method, said)
        if fault is not None and fault.kind != "lose_response":
            return self._failed(request, fault)
        if method == "getUpdates":
            return await self._get_updates(said)
        gone = self._gone(said)
        if gone is not None:
            return gone
        handler = getattr(self, "_" + method, None)
        answer = handler(said) if handler else True
        if isinstance(answer, web.Response):
            return answer
        if fault is not None:
            hang_up(request)
        return web.json_response({"ok": True, "result": answer})

    def _failed(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.kind == "rate_limit":
            more = {"parameters": {"retry_after": int(fault.seconds)}}
            return _error(429, f"Too Many Requests: retry after {fault.seconds:g}", more)
        if fault.kind == "refuse":
            return _error(fault.status if fault.status != 503 else 400, fault.reason)
        if fault.kind == "lose_request":
            hang_up(request)
        return web.Response(status=fault.status, text="<html>Bad Gateway</html>")

    def _getMe(self, said: dict[str, Any]) -> Any:
        return {**BOT, "can_join_groups": True, "can_read_all_group_messages": False, "supports_inline_queries": False}

    def _gone(self, said: Mapping[str, Any]) -> web.Response | None:
        """What Telegram says of a chat that has blocked the bot, or has become a supergroup."""
        chat = int(said.get("chat_id") or 0)
        if chat in self.blocked:
            return _error(403, "Forbidden: bot was blocked by the user")
        if chat in self.upgraded:
            more = {"parameters": {"migrate_to_chat_id": self.upgraded[chat]}}
            return _error(400, "Bad Request: group chat was upgraded to a supergroup chat", more)
        return None

    def _setMyCommands(self, said: dict[str, Any]) -> Any:
        scope = str((said.get("scope") or {}).get("type") or "default")
        self.commands[scope] = [str(item["command"]) for item in said["commands"]]
        return True

    def _getWebhookInfo(self, said: dict[str, Any]) -> Any:
        info = {"url": str(self.webhook.get("url") or ""), "has_custom_certificate": False, "pending_update_count": 0}
        return {**info, **self.webhook_trouble}

    def _setWebhook(self, said: dict[str, Any]) -> Any:
        self.webhook = said
        return True

    def _deleteWebhook(self, said: dict[str, Any]) -> Any:
        self.webhook = {}
        return True

    def _sendMessage(self, said: dict[str, Any]) -> Any:
        text = _checked(said)
        if isinstance(text, web.Response):
            return text
        chat = int(said["chat_id"])
        kind = "private" if chat > 0 else "supergroup"
        message = {
            "message_id": next(self._message_ids),
            "date": int(time.time()),
            "chat": {"id": chat, "type": kind},
            "from": BOT,
            "text": text,
        }
        self.messages.append({**message, "sent": said})
        return message

    def _sendMessageDraft(self, said: dict[str, Any]) -> Any:
        """A preview, in private chats only; it is no message."""
        if int(said["chat_id"]) <= 0:
            return _error(400, "Bad Request: TEXTDRAFT_PEER_INVALID")
        if not int(said["draft_id"]):
            return _error(400, "Bad Request: draft_id must be non-zero")
        text = _checked(said)
        if isinstance(text, web.Response):
            return text
        self.drafts.append({**said, "text": text})
        return True

    def _editMessageText(self, said: dict[str, Any]) -> Any:
        text = _checked(said)
        if isinstance(text, web.Response):
            return text
        message = self._own(said)
        if message is None:
            return _error(400, "Bad Request: message to edit not found")
        if (message["text"], message["sent"].get("reply_markup")) == (text, said.get("reply_markup")):
            return _error(
                400, "Bad Request: message is not modified: specified new message content is exactly the same"
            )
        markup = {"reply_markup": said["reply_markup"]} if said.get("reply_markup") else {}
        sent = {name: value for name, value in message["sent"].items() if name != "reply_markup"}
        message |= {"text": text, "sent": {**sent, **markup}}
        return {**message, "edit_date": int(time.time())}

    def _deleteMessage(self, said: dict[str, Any]) -> Any:
        message = self._own(said)
        if message is None:
            return _error(400, "Bad Request: message to delete not found")
        self.messages.remove(message)
        return True

    def _own(self, said: Mapping[str, Any]) -> dict[str, Any] | None:
        asked = (int(said["chat_id"]), int(said["message_id"]))
        return next((item for item in self.messages if (item["chat"]["id"], item["message_id"]) == asked), None)

    def _sendDocument(self, said: dict[str, Any]) -> Any:
        return self._send_file(said, "document", 50_000_000)

    def _sendPhoto(self, said: dict[str, Any]) -> Any:
        return self._send_file(said, "photo", 10_000_000)

    def _send_file(self, said: dict[str, Any], kind: str, most: int) -> Any:
        upload = said.pop(kind)
        content = upload.file.read()
        if not content:
            return _error(400, "Bad Request: file must be non-empty")
        if len(content) > most:
            return _error(413, "Request Entity Too Large")
        message = {
            "message_id": next(self._message_ids),
            "date": int(time.time()),
            "chat": {"id": int(said["chat_id"]), "type": "private"},
            "from": BOT,
        }
        self.messages.append({**message, "text": "", "sent": said, kind: (upload.filename, content)})
        return message

    def sent_files(self, kind: str = "document") -> list[tuple[str, bytes]]:
        """(name, content) of each file that the bot sent."""
        return [message[kind] for message in self.messages if kind in message]

    def _sendChatAction(self, said: dict[str, Any]) -> Any:
        return True

    def _getFile(self, said: dict[str, Any]) -> Any:
        identifier = str(said["file_id"])
        if identifier not in self.files:
            return _error(400, "Bad Request: invalid file_id")
        size = len(self.files[identifier])
        return {"file_id": identifier, "file_unique_id": identifier, "file_size": size, "file_path": identifier}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self.files[request.match_info["path"]])

    # Updates

    async def _get_updates(self, said: dict[str, Any]) -> web.StreamResponse:
        if self.webhook:
            return _error(409, "Conflict: can't use getUpdates method while webhook is active")
        if said.get("offset") is not None:
            self.confirmed = max(self.confirmed, int(said["offset"]) - 1)
        # The newest poll ends the one before it, whose caller learns of the conflict.
        self._polls += 1
        poll = self._polls
        self._news.set()
        ends = asyncio.get_running_loop().time() + float(said.get("timeout") or 0)
        while not self._waiting() and asyncio.get_running_loop().time() < ends:
            self._news.clear()
            left = max(0.01, ends - asyncio.get_running_loop().time())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)
            if poll != self._polls:
                return _error(409, "Conflict: terminated by other getUpdates request")
        return web.json_response({"ok": True, "result": self._waiting()[: int(said.get("limit") or 100)]})

    def _waiting(self) -> list[dict[str, Any]]:
        return [update for update in self.updates if update["update_id"] > self.confirmed]

    def update(self, **content: Any) -> dict[str, Any]:
        """An update with the next id."""
        return {"update_id": next(self._numbers), **content}

    def message(self, text: str | None = None, *, chat: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """An update of a message that somebody says; in the private chat with Ann unless ``chat`` is given."""
        said = {
            "message_id": next(self._message_ids),
            "date": int(time.time()),
            "from": ANN,
            "chat": dict(chat) if chat else {**ANN, "type": "private"},
            **({"text": text} if text is not None else {}),
            **more,
        }
        return self.update(message=said)

    def pressed(self, data: str, message: Mapping[str, Any], by: Mapping[str, Any] = ANN) -> dict[str, Any]:
        """An update of a button's press."""
        number = next(self._numbers)
        query = {"id": str(number), "from": dict(by), "message": dict(message), "chat_instance": "1", "data": data}
        return {"update_id": number, "callback_query": query}

    def say(self, *updates: dict[str, Any]) -> None:
        """Let updates be polled."""
        self.updates += updates
        self._news.set()

    async def post(self, url: str, update: Mapping[str, Any], secret: str) -> int:
        """Deliver an update to a webhook: the status of the answer."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
        async with aiohttp.ClientSession() as session, session.post(url, json=update, headers=headers) as answer:
            return answer.status


def _checked(said: Mapping[str, Any]) -> str | web.Response:
    """The text of a message without its markup, or what Telegram says of one it does not take."""
    text = str(said.get("text") or "")
    if said.get("parse_mode") == "HTML":
        markup = Markup(text)
        if not markup.balanced:
            return _error(400, "Bad Request: can't parse entities: unexpected end tag")
        text = markup.text
    if not text.strip():
        return _error(400, "Bad Request: message text is empty")
    if utf16(text) > 4096:
        return _error(400, "Bad Request: message is too long")
    return text


def _error(status: int, description: str, more: Mapping[str, Any] | None = None) -> web.Response:
    body = {"ok": False, "error_code": status, "description": description, **(more or {})}
    return web.json_response(body, status=status)


async def _arguments(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        found = await request.json()
        return dict(found) if isinstance(found, dict) else {}
    said: dict[str, Any] = {**request.query, **dict(await request.post())}
    for name in ("reply_markup", "reply_parameters", "link_preview_options", "commands", "allowed_updates", "scope"):
        if isinstance(said.get(name), str):
            said[name] = json.loads(said[name])
    return said
