"""Between sandbox manager and egress proxy: each sandbox has a socket of its own, and that alone says who it is.

The manager makes the listening socket and keeps it; the proxy gets a descriptor of it and accepts. So a proxy that was
started again goes on serving sandboxes that are awake, and a manager that died takes its sandboxes' sockets with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import structlog

from sandbox_runner.egress import trust
from sandbox_runner.egress.clients import Client
from sandbox_runner.egress.wire import StreamWire
from sandbox_runner.sandboxes import short_path
from workspace_store.tenancy import Tenancy

log = structlog.get_logger()

BACKLOG = 128
MOST_CONNECTIONS = 128
"""Of one sandbox at a time; more wait."""
RECONNECT_SECONDS = 0.1
_MOST_MESSAGE = 4096


def control_path(home: Path, host: str) -> Path:
    return home / "run" / f"egress-{host}.sock"


@dataclass
class _Open:
    listener: socket.socket
    path: Path
    message: bytes


class EgressDoor:
    """The manager's side: sockets for sandboxes, told to whichever proxy runs."""

    def __init__(self, home: Path, host: str) -> None:
        self._home = home
        self._control = control_path(home, host)
        self._folder = home / "run" / f"egress-{host}"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        self._open: dict[str, _Open] = {}
        self._connection: socket.socket | None = None

    @property
    def trust_bundle(self) -> Path | None:
        """Certificates for sandboxes to trust in place of the system's; None: the system's do."""
        path = trust.bundle_path(self._home)
        return path if path.exists() else None

    def open(self, sandbox_id: str, tenancy: Tenancy, uid: int | None) -> Path:
        """A socket for one sandbox, which only ``uid`` may connect to (None: ourselves)."""
        path = self._folder / f"{sandbox_id}.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            with short_path(path) as name:
                listener.bind(name)
            os.chmod(path, 0o600)
            if uid is not None:
                os.chown(path, uid, uid)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        said = {
            "op": "open",
            "sandbox": sandbox_id,
            "principal": tenancy.principal.hex,
            "host": tenancy.host,
            "epoch": tenancy.epoch,
        }
        self._open[sandbox_id] = _Open(listener, path, json.dumps(said).encode())
        self._tell(self._open[sandbox_id].message, listener)
        return path

    def close(self, sandbox_id: str) -> None:
        """The sandbox is gone. Idempotent."""
        found = self._open.pop(sandbox_id, None)
        if found is not None:
            found.listener.close()
            found.path.unlink(missing_ok=True)
            self._tell(json.dumps({"op": "close", "sandbox": sandbox_id}).encode())

    def _tell(self, message: bytes, listener: socket.socket | None = None) -> None:
        if self._connection is None:
            return
        try:
            socket.send_fds(self._connection, [message], [listener.fileno()] if listener else [])
        except OSError:
            # The next connection is told everything anew.
            self._connection.close()
            self._connection = None

    async def keep(self) -> None:
        """Stay connected to the proxy, until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                connection = self._connected()
                if connection is not None:
                    with contextlib.suppress(OSError):
                        await loop.sock_recv(connection, 1)
                    if self._connection is connection:
                        self._connection = None
                    connection.close()
                await asyncio.sleep(RECONNECT_SECONDS)
        finally:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connected(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            with short_path(self._control) as name:
                connection.connect(name)
        except OSError:
            connection.close()
            return None
        self._connection = connection
        for each in list(self._open.values()):
            self._tell(each.message, each.listener)
        return connection

    def shut(self) -> None:
        """Close everything (a clean stop)."""
        for sandbox_id in list(self._open):
            self.close(sandbox_id)


Serve = Callable[[Client, StreamWire], Awaitable[None]]
Begin = Callable[[Client], Awaitable[None]]


class Listeners:
    """The proxy's side. ``begin`` is awaited once for each sandbox, before its first connection is served."""

    def __init__(self, serve: Serve, begin: Begin) -> None:
        self._serve = serve
        self._begin = begin
        self._sandboxes: dict[str, tuple[Client, asyncio.Task[None]]] = {}

    def busy(self) -> list[Client]:
        """Sandboxes with connections now."""
        return [client for client, _ in self._sandboxes.values() if client.connections]

    def open(self, client: Client, listener: socket.socket) -> None:
        self.close(client.sandbox_id)
        task = asyncio.get_running_loop().create_task(self._accept(client, listener))
        self._sandboxes[client.sandbox_id] = (client, task)

    def close(self, sandbox_id: str) -> None:
        """Break off all its connections, and serve no more."""
        found = self._sandboxes.pop(sandbox_id, None)
        if found is not None:
            found[1].cancel()

    async def shut(self) -> None:
        tasks = [task for _, task in self._sandboxes.values()]
        for sandbox_id in list(self._sandboxes):
            self.close(sandbox_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, client: Client, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(MOST_CONNECTIONS)
        serving: set[asyncio.Task[None]] = set()
        try:
            await self._begin(client)
            while True:
                await room.acquire()
                connection, _ = await loop.sock_accept(listener)
                task = loop.create_task(self._one(client, connection))
                serving.add(task)
                task.add_done_callback(serving.discard)
                task.add_done_callback(lambda _: room.release())
        except OSError as error:
            log.warning("a sandbox's socket broke", sandbox=client.sandbox_id, reason=str(error))
        finally:
            listener.close()
            for task in serving:
                task.cancel()
            # Cut off, they write down how far they came.
            await asyncio.gather(*serving, return_exceptions=True)

    async def _one(self, client: Client, connection: socket.socket) -> None:
        client.connections += 1
        try:
            await self._serve(client, StreamWire(*await asyncio.open_unix_connection(sock=connection)))
        finally:
            client.connections -= 1


async def listen(path: Path) -> socket.socket:
    """The control socket, for the owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    with short_path(path) as name:
        control.bind(name)
    os.chmod(path, 0o600)
    control.listen(8)
    return control


async def serve(control: socket.socket, listeners: Listeners) -> None:
    """Take managers in, until cancelled."""
    loop = asyncio.get_running_loop()
    managers: set[asyncio.Task[None]] = set()
    try:
        while True:
            connection, _ = await loop.sock_accept(control)
            task = loop.create_task(_manager(connection, listeners))
            managers.add(task)
            task.add_done_callback(managers.discard)
    finally:
        for task in managers:
            task.cancel()
        await asyncio.gather(*managers, return_exceptions=True)


async def _manager(connection: socket.socket, listeners: Listeners) -> None:
    """One manager's words, to its end; then its sandboxes are over too."""
    opened: set[str] = set()
    try:
        while True:
            data, descriptors = await _receive(connection)
            if not data:
                return
            said = json.loads(data)
            if said["op"] == "open":
                tenancy = Tenancy(UUID(said["principal"]), str(said["host"]), int(said["epoch"]))
                listener = socket.socket(fileno=descriptors[0])
                listener.setblocking(False)
                listeners.open(Client(str(said["sandbox"]), tenancy), listener)
                opened.add(str(said["sandbox"]))
            else:
                listeners.close(str(said["sandbox"]))
                opened.discard(str(said["sandbox"]))
    except OSError as error:
        log.warning("the sandbox manager's connection broke", reason=str(error))
    finally:
        connection.close()
        for sandbox_id in opened:
            listeners.close(sandbox_id)


async def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    loop = asyncio.get_running_loop()
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(connection, _MOST_MESSAGE, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(connection, _set, ready)
            try:
                await ready
            finally:
                loop.remove_reader(connection)
        else:
            return data, descriptors


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
