"""A wire that can be cut: a TCP port of this machine in front of another socket.

While it is cut nothing comes through in either direction and nobody is told, as when a cable is out; what was under way
comes through when it is mended.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

PIECE = 1 << 16


class Wire:
    """Carries to the unix socket ``to``, from ``port`` of the loopback, until ``close``."""

    def __init__(self, to: Path) -> None:
        self._to = to
        self._whole: asyncio.Event
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._whole.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._whole, self._ending = asyncio.Event(), asyncio.Event()
        self._whole.set()
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ending.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        there, to_there = await asyncio.open_unix_connection(str(self._to))
        try:
            await asyncio.gather(self._pass(reader, to_there), self._pass(there, writer))
        finally:
            for end in (writer, to_there):
                end.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE):
                await self._whole.wait()
                writer.write(piece)
                await writer.drain()
        # The other end hears no more: nothing more comes back either.
        writer.close()
