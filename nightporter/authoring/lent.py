"""The ``Context`` that a tool gets: what a turn lends it, as long as its call lasts."""

from __future__ import annotations

import asyncio
import base64
import posixpath
import shlex
from collections.abc import Awaitable, Callable, Coroutine
from hashlib import sha256
from typing import Any, TypeVar
from uuid import UUID

from agent.sandbox import CommandResult, SandboxError
from agent.tool import ToolHost
from nightporter.authoring import texts
from nightporter.authoring.words import Ran

T = TypeVar("T")

TERMINAL = "tools"
"""Not the person's own: its directory and variables stay as they left them."""
PIECE_BYTES = 256 << 10
MOST_BYTES = 16 << 20
END = "END-OF-FILE"

ReadBlob = Callable[[UUID, str], Awaitable[bytes]]


class LentContext:
    """Made on the runner's loop; used from the thread of the tool. See ``words.Context``."""

    def __init__(self, host: ToolHost, call_id: str, key: str, read_blob: ReadBlob) -> None:
        here = host.here
        self.user, self.principal, self.in_room = here.user, host.principal, here.in_room
        self.channel, self.conversation, self.thread = here.channel, here.conversation, here.thread
        self.turn, self.call_id, self.key = host.turn, call_id, key
        self.ran: list[CommandResult] = []
        self._host, self._read_blob = host, read_blob
        self._loop = asyncio.get_running_loop()
        self._over = False

    @property
    def stopping(self) -> bool:
        return self._over or self._host.stopping.is_set()

    def run(self, command: str, *, timeout: float | None = None) -> Ran:
        return self._wait(self._run(command, timeout))

    def read_file(self, path: str) -> bytes:
        return self._wait(self._read_file(path))

    def write_file(self, path: str, data: bytes | str) -> None:
        self._wait(self._write_file(path, data))

    async def arun(self, command: str, *, timeout: float | None = None) -> Ran:
        return await self._hand_over(self._run(command, timeout))

    async def aread_file(self, path: str) -> bytes:
        return await self._hand_over(self._read_file(path))

    async def awrite_file(self, path: str, data: bytes | str) -> None:
        await self._hand_over(self._write_file(path, data))

    async def end(self) -> None:
        """The call is over: what still runs for it is interrupted, and nothing new begins."""
        begun, self._over = not self._over and bool(self.ran), True
        if begun and self.ran[-1].status == "running":
            await self._host.sandbox.interrupt(TERMINAL)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _hand_over(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _run(self, command: str, timeout: float | None) -> Ran:
        self._check()
        # The same command of the same call is not run again where its sandbox lived on.
        named = f"{self.key}:{len(self.ran)}:{sha256(command.encode()).hexdigest()[:12]}"
        result = await self._host.sandbox.run(named, command, terminal=TERMINAL, timeout=timeout)
        self.ran.append(result)
        return Ran(result.exit_code, result.output)

    async def _read_file(self, path: str) -> bytes:
        self._check()
        try:
            frozen = await self._host.sandbox.freeze_file(path)
        except SandboxError as error:
            raise OSError(str(error)) from error
        return await self._read_blob(self.principal, frozen.blob)

    async def _write_file(self, path: str, data: bytes | str) -> None:
        """Beside it in pieces, then into its place: whoever reads it sees the old file or the new one."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        if len(content) > MOST_BYTES:
            raise OSError(texts.too_much_to_write(len(content), MOST_BYTES))
        whole = posixpath.join("/workspace", f"/home/porter/{path[2:]}" if path.startswith("~/") else path)
        aside = shlex.quote(f"{whole}.{sha256(self.key.encode()).hexdigest()[:8]}")
        pieces = [content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES)]
        await self._must(f"mkdir -p -- {shlex.quote(posixpath.dirname(whole))} && : > {aside}", path)
        for piece in pieces:
            await self._must(f"base64 -d >> {aside} <<'{END}'\n{base64.encodebytes(piece).decode()}{END}", path)
        await self._must(f"mv -T -- {aside} {shlex.quote(whole)}", path)

    async def _must(self, command: str, path: str) -> None:
        ran = await self._run(command, None)
        if ran.exit_code != 0:
            raise OSError(texts.not_written(path, ran.output.strip()))

    def _check(self) -> None:
        if self._over:
            raise RuntimeError(texts.CALL_IS_OVER)
