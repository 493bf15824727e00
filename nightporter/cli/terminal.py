"""The conversation at the terminal: what is typed is kept, what is said streams in above the prompt.

A line that the server has not acknowledged is sent again with the same id until it has, over any restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output
from prompt_toolkit.patch_stdout import patch_stdout

from nightporter.cli import texts
from nightporter.cli.client import Client, Event
from nightporter.cli.files import with_files
from nightporter.errors import CommandError

LOOK_SECONDS = 2.0
LEAVE = {"/quit", "/exit"}


async def converse(client: Client, home: Path, given: Input | None = None, shown: Output | None = None) -> int:
    """Read lines and show replies until Ctrl-D or ``/quit``; what was sent goes on without us."""
    history = home / "chat_history"
    history.touch(mode=0o600, exist_ok=True)
    session: PromptSession[str] = PromptSession(history=FileHistory(str(history)), input=given, output=shown)
    talk = _Talk(client)
    with patch_stdout(raw=True):
        print(texts.chat_welcome())
        tasks = [asyncio.create_task(talk.follow()), asyncio.create_task(talk.send()), asyncio.create_task(talk.look())]
        try:
            while True:
                try:
                    line = await session.prompt_async(texts.PROMPT, set_exception_handler=False)
                except KeyboardInterrupt:
                    continue
                except EOFError:
                    break
                if line.strip() in LEAVE:
                    break
                if line.strip():
                    talk.unsent.put_nowait((uuid.uuid4().hex, line))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.close()
    return 0


class _Talk:
    """What was said and is not answered yet."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.unsent: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._open: dict[str, int] = {}
        """Message ids without an end, and how many replies of each were shown."""
        self._away = False

    async def send(self) -> None:
        """Have each line accepted, in order, however often it takes."""
        while True:
            message_id, text = await self.unsent.get()
            self._open[message_id] = 0
            sending = asyncio.create_task(self._client.say(text, message_id, patient=True))
            done, _ = await asyncio.wait([sending], timeout=LOOK_SECONDS)
            if not done:
                print(texts.server_is_away())
            try:
                await sending
            except CommandError as error:
                del self._open[message_id]
                print(texts.not_sent(str(error)))

    async def follow(self) -> None:
        """Show what happens as it happens."""
        try:
            async for event in self._client.events():
                await self._show(event)
        except CommandError as error:
            print(texts.not_sent(str(error)))

    async def look(self) -> None:
        """Ask after what is open, for what no event told."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for message_id in list(self._open):
                with contextlib.suppress(CommandError):
                    await self._settle(message_id)

    async def _show(self, event: Event) -> None:
        if event.kind == "progress":
            print(texts.progress(event.data), end="", flush=True)
        elif event.kind == "connected" or event.data.get("message_id") in self._open:
            for message_id in list(self._open):
                with contextlib.suppress(CommandError):
                    await self._settle(message_id)
        elif event.kind == "reply.queued" and event.data.get("message_id") is None:
            print(texts.said_elsewhere(str(event.data.get("text", ""))))

    async def _settle(self, message_id: str) -> None:
        outcome = await self._client.outcome(message_id)
        if outcome is None or message_id not in self._open:
            return
        for reply in outcome.replies[self._open[message_id] :]:
            print(texts.said(texts.reply(await with_files(self._client, reply, None))))
        self._open[message_id] = len(outcome.replies)
        if outcome.settled:
            del self._open[message_id]
            if not outcome.replies:
                print(texts.no_reply(outcome.status))
