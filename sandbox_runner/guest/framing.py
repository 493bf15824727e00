"""Frames to and from the host: one JSON object a line, UTF-8, at most 2 MiB.

The host is trusted, the socket's speed is not: events are dropped while the host does not read, answers never are.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time

from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_FRAME = 2 << 20
_EVENTS_UP_TO = 4 << 20
_ANSWERS_UP_TO = 64 << 20


def encode(frame: dict[str, Any]) -> bytes:
    """One line; lone surrogates become replacement characters."""
    text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


class Connection:
    """The guest's end of the connection: read from ``fd``, written to ``out`` (the same one, for a socket).

    ``on_close`` runs once, at EOF or any error.
    """

    def __init__(
        self,
        loop: Loop,
        fd: int,
        out: int,
        on_frame: Callable[[dict[str, Any]], None],
        on_close: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._out = out
        self._on_frame = on_frame
        self._on_close = on_close
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._closed = False
        self._awaited: int | None = None
        self._counsel: dict[str, Any] | None = None
        self._deferred: list[dict[str, Any]] = []
        for each in {fd, out}:
            os.set_inheritable(each, False)
            os.set_blocking(each, False)
        loop.add_reader(fd, self._readable)

    def send(self, frame: dict[str, Any]) -> None:
        self._queue(encode(frame))

    def send_event(self, frame: dict[str, Any]) -> None:
        """Dropped when the host is behind by more than 4 MiB."""
        if len(self._outgoing) < _EVENTS_UP_TO:
            self._queue(encode(frame))

    def consult(self, event: dict[str, Any], number: int, seconds: float) -> dict[str, Any] | None:
        """Ask the host and wait for its ``counsel`` of that number; None: it gave none in time.

        Nothing else goes on meanwhile: what the host asks is heard after.
        """
        self._awaited, self._counsel = number, None
        self.send(event)
        poll = select.poll()
        deadline = time.monotonic() + seconds
        while self._counsel is None and not self._closed and (left := deadline - time.monotonic()) > 0:
            poll.register(self._fd, select.POLLIN)
            if self._outgoing:
                mask = select.POLLOUT | (select.POLLIN if self._out == self._fd else 0)
                poll.register(self._out, mask)
            for _, happened in poll.poll(left * 1000):
                if happened & select.POLLOUT:
                    self._writable()
            if self._out != self._fd and not self._outgoing:
                with contextlib.suppress(KeyError):
                    poll.unregister(self._out)
            self._readable()
        self._awaited = None
        if self._deferred:
            self._loop.call_later(0, self._hear_deferred)
        return self._counsel

    def _hear_deferred(self) -> None:
        while self._deferred and not self._closed:
            self._on_frame(self._deferred.pop(0))

    def _hear(self, frame: dict[str, Any]) -> None:
        if frame.get("op") == "counsel":
            if frame.get("number") == self._awaited:
                self._counsel = frame
        elif self._awaited is not None or self._deferred:
            self._deferred.append(frame)
        else:
            self._on_frame(frame)

    def flush(self) -> None:
        """Block until everything is written (before the guest ends)."""
        if not self._closed:
            os.set_blocking(self._out, True)
            self._writable()

    def _queue(self, data: bytes) -> None:
        if self._closed:
            return
        if len(self._outgoing) > _ANSWERS_UP_TO:
            self._close()
            return
        self._outgoing += data
        self._writable()

    def _writable(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: os.write(self._out, self._outgoing)]
        except BlockingIOError:
            self._loop.add_writer(self._out, self._writable)
            return
        except OSError:
            self._close()
            return
        self._loop.remove_writer(self._out)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, 1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close()
            return
        self._incoming += data
        while not self._closed:
            end = self._incoming.find(b"\n")
            if end > MAX_FRAME or (end < 0 and len(self._incoming) > MAX_FRAME):
                self._close()
            if end < 0:
                return
            line = bytes(self._incoming[:end])
            del self._incoming[: end + 1]
            try:
                frame = json.loads(line)
            except (ValueError, RecursionError):
                frame = None
            if isinstance(frame, dict):
                self._hear(frame)
            else:
                self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._out)
            self._on_close()
