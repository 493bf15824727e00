"""People who talk over the HTTP interface as cheaply as can be: plain asyncio streams, an event stream a person.

Each says the next thing when the last was answered. What came back of each message is kept, for lost and doubled ones
to be counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import uuid4

ANSWER_SECONDS = 120.0
AGAIN_SECONDS = 0.2


@dataclass
class Said:
    """One message: ``accepted`` and ``answered`` on the clock ``time.perf_counter``."""

    id: str
    text: str
    began: float
    accepted: float = 0.0
    answered: float = 0.0
    replies: list[str] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Person:
    """Somebody with a connection to say things and another to hear."""

    name: str
    address: str
    token: str
    said: dict[str, Said] = field(default_factory=dict)
    _connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    _after: str = "0"

    async def say(self, text: str) -> Said:
        """Say something as often as it takes to be accepted."""
        said = Said(uuid4().hex, text, time.perf_counter())
        self.said[said.id] = said
        body = json.dumps({"text": text, "message_id": said.id, "user": self.name}).encode()
        while await self._post(body) != 202:  # noqa: ASYNC110 - asked again, as platforms do
            await asyncio.sleep(AGAIN_SECONDS)
        said.accepted = time.perf_counter()
        return said

    async def ask(self, text: str, seconds: float = ANSWER_SECONDS) -> Said:
        """Say something and wait for its answer."""
        said = await self.say(text)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await said.heard.wait()
        return said

    async def _post(self, body: bytes) -> int:
        """The status; 0 where the connection broke."""
        try:
            if self._connection is None:
                self._connection = await self._connect()
            reader, writer = self._connection
            writer.write(self._head("POST", "/v1/messages", len(body)) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length or 0))
            return int(head.split(b" ", 2)[1])
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError):
            self.hang_up()
            return 0

    async def listen(self) -> None:
        """Hear answers until cancelled, through any loss of the connection."""
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, EOFError):
                await self._listen()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _listen(self) -> None:
        reader, writer = await self._connect()
        try:
            writer.write(self._head("GET", f"/v1/events?user={self.name}&after={self._after}", 0))
            kind = identifier = b""
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    identifier = line[4:-1]
                elif line.startswith(b"event: "):
                    kind = line[7:-1]
                elif line.startswith(b"data: "):
                    self._after = identifier.rpartition(b":")[2].decode() or self._after
                    if kind == b"reply.queued":
                        self._hear(json.loads(line[6:]))
        finally:
            writer.close()

    def _hear(self, told: dict[str, str]) -> None:
        said = self.said.get(told["message_id"])
        if said is not None:
            said.answered = said.answered or time.perf_counter()
            said.replies.append(told["text"])
            said.heard.set()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self.address.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    def _head(self, method: str, target: str, length: int) -> bytes:
        return (
            f"{method} {target} HTTP/1.1\r\nhost: {self.address}\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        ).encode()

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None


async def all_talk(people: list[Person], talk: Callable[[Person], Awaitable[None]]) -> None:
    """Let all of them listen and talk until each has said what it has to say."""
    # Whoever is not known yet has nothing to listen to.
    await asyncio.gather(*(person.say("hello") for person in people))
    listening = [asyncio.create_task(person.listen()) for person in people]
    try:
        await asyncio.gather(*(talk(person) for person in people))
    finally:
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        for person in people:
            person.hang_up()
