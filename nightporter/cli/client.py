"""The HTTP interface as a client sees it: say something, ask how it went, follow events over restarts of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from nightporter.cli import texts
from nightporter.cli.files import Upload
from nightporter.cli.server import Server
from nightporter.errors import CommandError, ConfigurationError, NotRunning

RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
_TIMEOUT = httpx.Timeout(10, connect=3)
_UPLOAD = httpx.Timeout(60, connect=3)
_SILENCE_SECONDS = 40
"""The server says something each 15 s; a connection that is silent for longer is dead."""


@dataclass(frozen=True)
class Event:
    """A server-sent event; ``id`` is empty for live news, which is no record."""

    kind: str
    data: dict[str, Any]
    id: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a message fares: ``pending``, ``running``, ``waiting``, ``done`` or ``failed``, and the replies so far."""

    status: str
    replies: tuple[dict[str, Any], ...]

    @property
    def settled(self) -> bool:
        return self.status in ("done", "failed") or self.asks

    @property
    def asks(self) -> bool:
        """It ended with a question, which the next message answers."""
        return self.status == "waiting" and bool(self.replies)


class Client:
    """Speaks to one server as one user of the local channel."""

    def __init__(self, server: Server, user: str = "") -> None:
        self._user = {"user": user} if user else {}
        self._server = server
        # Plain HTTP: certificates, which take 25 ms to read, are not asked for.
        self._http = httpx.AsyncClient(
            base_url=server.url, headers=server.headers, timeout=_TIMEOUT, trust_env=False, verify=False
        )
        self._last_event = ""
        self._from_start: dict[str, str] = {}

    async def close(self) -> None:
        await self._http.aclose()

    async def say(self, text: str, message_id: str, *, files: Sequence[Upload] = (), patient: bool) -> str:
        """Have a message accepted and return its principal; the same id twice is the same message.

        ``patient``: a server that is away is waited for; otherwise it is ``NotRunning``.
        """
        body = {"text": text, "message_id": message_id, **self._user}
        form = [("file", (file.name, file.content, file.content_type)) for file in files]
        given: dict[str, Any] = {"data": body, "files": form, "timeout": _UPLOAD} if form else {"json": body}
        for wait in _waits():
            try:
                answer = await self._http.post("/v1/messages", **given)
            except httpx.TransportError as error:
                if not patient:
                    raise NotRunning(texts.server_away(self._server.url)) from error
            else:
                if answer.status_code == 202:
                    return str(answer.json()["principal"])
                if answer.status_code != 503:
                    raise _refusal(answer)
            await asyncio.sleep(wait)
        raise AssertionError("waits end never")

    async def outcome(self, message_id: str) -> Outcome | None:
        """How a message fares; None while the server cannot say."""
        try:
            answer = await self._http.get(f"/v1/messages/{message_id}", params=self._user)
        except httpx.TransportError:
            return None
        if answer.status_code >= 500:
            return None
        if answer.status_code != 200:
            raise _refusal(answer)
        found = answer.json()
        return Outcome(str(found["status"]), tuple(found["replies"]))

    async def download(self, path: str) -> bytes:
        """A file of a reply, by the path that names it there."""
        try:
            answer = await self._http.get(path, timeout=_UPLOAD)
        except httpx.TransportError as error:
            raise NotRunning(texts.server_away(self._server.url)) from error
        if answer.status_code != 200:
            raise _refusal(answer)
        return answer.content

    def url(self, path: str) -> str:
        return f"{self._server.url}{path}"

    async def events(self) -> AsyncIterator[Event]:
        """Events from now on, without end: over a restart of the server they go on after the last one seen."""
        waits = _waits()
        while True:
            try:
                async with self._http.stream(
                    "GET",
                    "/v1/events",
                    params={**self._user, **({} if self._last_event else self._from_start)},
                    headers={"Last-Event-ID": self._last_event} if self._last_event else {},
                    timeout=httpx.Timeout(_SILENCE_SECONDS, connect=3),
                ) as answer:
                    if answer.status_code == 404:
                        self._from_start = {"after": "0"}  # nobody yet: all there will be is new
                    elif answer.status_code in (400, 401, 403, 410):
                        await answer.aread()
                        raise _refusal(answer)
                    elif answer.status_code == 200:
                        waits = _waits()
                        yield Event("connected", {})
                        async for event in _read_events(answer.aiter_lines()):
                            self._last_event = event.id or self._last_event
                            yield event
            except httpx.TransportError:
                pass
            await asyncio.sleep(next(waits))


def _waits() -> Iterator[float]:
    yield from RETRY_SECONDS
    while True:
        yield RETRY_SECONDS[-1]


async def _read_events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    """https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation, as far as used."""
    kind, identifier, data = "message", "", ""
    async for line in lines:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "id":
                identifier = value
            elif name == "data":
                data += value
            continue
        if data:
            body = json.loads(data)
            yield Event(kind, body if isinstance(body, dict) else {}, identifier)
        kind, identifier, data = "message", "", ""


def _refusal(answer: httpx.Response) -> CommandError:
    try:
        why = str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        why = answer.text[:200]
    if answer.status_code == 401:
        return ConfigurationError(texts.token_refused())
    return CommandError(texts.server_refused(answer.status_code, why))
