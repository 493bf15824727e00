"""What a command printed: kept within a bound (head and tail), and shown live within a rate."""

from __future__ import annotations

from collections import deque

from .loop import Loop, Timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIVE_INTERVAL_S = 0.1
LIVE_BYTES = 64 << 10


def decode(data: bytes) -> str:
    """Text for a person: what is not UTF-8, and NUL (databases refuse it), becomes U+FFFD."""
    return data.decode("utf-8", "replace").replace("\0", "\ufffd")


class CappedOutput:
    """The first and the last half of at most ``limit`` bytes; memory stays within twice of that."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total = 0

    def write(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._tail[0]) >= self._half:
            self._tail_bytes -= len(self._tail.popleft())

    def clear(self) -> None:
        self._head.clear()
        self._tail.clear()
        self._tail_bytes = 0

    def parts(self) -> tuple[bytes, bytes, int]:
        """Head, tail and the number of bytes between them that were not kept."""
        tail = b"".join(self._tail)[-self._half :]
        return bytes(self._head), tail, self.total - len(self._head) - len(tail)

    def text(self) -> tuple[str, int]:
        """The text and the number of bytes left out of its middle (a line there says so)."""
        head, tail, omitted = self.parts()
        if not omitted:
            return decode(head + tail), 0
        # A character cut in two at the gap is not shown as rubbish.
        return f"{decode(head).rstrip(chr(0xFFFD))}\n[… {omitted} bytes omitted …]\n{_from_character(tail)}", omitted


def _from_character(data: bytes) -> str:
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return decode(data[start:])


class LiveOutput:
    """Joins output into at most ten events a second of at most 64 KiB; what is faster is skipped, and said."""

    def __init__(self, loop: Loop, send: Callable[[str], None]) -> None:
        self._loop = loop
        self._send = send
        self._waiting = bytearray()
        self._skipped = 0
        self._timer: Timer | None = None

    def write(self, data: bytes) -> None:
        room = LIVE_BYTES - 64 - len(self._waiting)
        self._waiting += data[:room] if room > 0 else b""
        self._skipped += len(data) - max(0, min(room, len(data)))
        if self._timer is None:
            self._timer = self._loop.call_later(LIVE_INTERVAL_S, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        data, self._waiting = bytes(self._waiting), bytearray()
        if not self._skipped:
            cut = _whole_characters(data)
            self._waiting += data[cut:]
            data = data[:cut]
        text = decode(data)
        if self._skipped:
            text += f"\n[… {self._skipped} bytes not shown …]\n"
            self._skipped = 0
        if text:
            self._send(text)


def _whole_characters(data: bytes) -> int:
    """Length of ``data`` without a UTF-8 character that is not complete yet."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if back >= needed else len(data) - back
    return len(data)
