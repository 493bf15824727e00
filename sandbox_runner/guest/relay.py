"""The inner end of egress: what connects to a port of the sandbox's own loopback is carried to the proxy's socket.

It decides nothing and understands nothing, so there is nothing in it to be talked out of. It lives in the guest's own
loop: no process more, and nothing to wake but a listening socket.
"""

from __future__ import annotations

# The C module alone: the library's around it would take a third of the guest's start.
import _socket as socket
import contextlib
import os

from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PORT = 3128
PROXY_SOCKET = "/run/nightporter/egress.sock"
TRUST_BUNDLE = "/run/nightporter/ca-bundle.crt"
NODE_PROXY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_proxy.cjs")

_TRUST_NAMES = (
    "SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
)  # fmt: skip
_SYSTEM_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
_MOST = 96
"""Connections at a time; more wait in the backlog, so that a flood of them costs the guest no descriptor."""
_CHUNK = 65536
_HELD = 4 * _CHUNK
_AWAY = (
    b"HTTP/1.1 503 Nightporter: the egress proxy is away\r\nContent-Type: application/json\r\n"
    b"Content-Length: 95\r\nConnection: close\r\n\r\n"
    b'{"error": "proxy_away", "reason": "the egress proxy is away", "how": "Try again in a moment."}\n'
)


def start(loop: Loop) -> bool:
    """Listen, where there is a proxy to carry to; whether it does."""
    if not os.path.exists(PROXY_SOCKET):
        return False
    return _Relay(loop).listen()


def environment() -> dict[str, str]:
    """What tells programs of the proxy, and of the certificates that are trusted besides the system's."""
    proxy = f"http://127.0.0.1:{PORT}"
    direct = "localhost,127.0.0.1,::1"
    found = {
        "HTTP_PROXY": proxy,
        "HTTPS_PROXY": proxy,
        "ALL_PROXY": proxy,
        "NO_PROXY": direct,
        "NODE_USE_ENV_PROXY": "1",
        "NODE_OPTIONS": f"--require={NODE_PROXY}",
    }
    found.update({name.lower(): found[name] for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")})
    for bundle in (TRUST_BUNDLE, *_SYSTEM_BUNDLES):
        if os.path.exists(bundle):
            # Some programs (Node.js, uv, requests) bring a list of their own, and would not know an authority of this
            # machine's owner.
            found.update(dict.fromkeys(_TRUST_NAMES, bundle))
            break
    return found


class _Relay:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._count = 0
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setblocking(False)

    def listen(self) -> bool:
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._listener.bind(("127.0.0.1", PORT))
            self._listener.listen(128)
        except OSError:
            self._listener.close()
            return False
        self._loop.add_reader(self._listener.fileno(), self._accept)
        return True

    def _accept(self) -> None:
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined] # of the C module, unknown to typeshed
            inner = socket.socket(fileno=descriptor)
        except OSError:
            return
        inner.setblocking(False)
        outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        outer.setblocking(False)
        try:
            outer.connect(PROXY_SOCKET)
        except OSError:
            with contextlib.suppress(OSError):
                inner.send(_AWAY)
            inner.close()
            outer.close()
            return
        self._count += 1
        if self._count >= _MOST:
            self._loop.remove_reader(self._listener.fileno())
        _Pair(self._loop, inner, outer, self._ended)

    def _ended(self) -> None:
        if self._count >= _MOST:
            self._loop.add_reader(self._listener.fileno(), self._accept)
        self._count -= 1


class _Pair:
    """Two sockets, and what each has still to be given of the other."""

    def __init__(self, loop: Loop, inner: socket.socket, outer: socket.socket, on_end: Callable[[], None]) -> None:
        self._loop = loop
        self._on_end = on_end
        self._ways = (_Way(self, inner, outer), _Way(self, outer, inner))
        for way in self._ways:
            way.watch()

    @property
    def loop(self) -> Loop:
        return self._loop

    def end_if_done(self) -> None:
        """Over when both ways are: what is still to be said one way is said though the other broke."""
        if not all(way.done for way in self._ways):
            return
        for way in self._ways:
            way.close()
        on_end, self._on_end = self._on_end, _nothing
        on_end()


class _Way:
    def __init__(self, pair: _Pair, source: socket.socket, sink: socket.socket) -> None:
        self._pair = pair
        self._source = source
        self._sink = sink
        self._held = bytearray()
        self._ended = False
        self._dropping = False
        """The sink takes no more; what comes is thrown away, so that its last words still reach the source."""
        self.done = False

    def watch(self) -> None:
        self._pair.loop.add_reader(self._source.fileno(), self._read)

    def close(self) -> None:
        if self._source.fileno() >= 0:
            self._pair.loop.remove_reader(self._source.fileno())
            self._pair.loop.remove_writer(self._source.fileno())
            self._source.close()
        self.done = True

    def _read(self) -> None:
        if self.done or self._ended:
            return
        try:
            data = self._source.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._ended = not data
        if not self._dropping:
            self._held += data
        if self._ended or len(self._held) >= _HELD:
            self._pair.loop.remove_reader(self._source.fileno())
        self._write()

    def _write(self) -> None:
        if self.done:
            return
        try:
            if self._held:
                sent = self._sink.send(self._held)
                del self._held[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._dropping = True
            self._held.clear()
        if self._held:
            self._pair.loop.add_writer(self._sink.fileno(), self._write)
            return
        self._pair.loop.remove_writer(self._sink.fileno())
        if self._ended:
            self.done = True
            with contextlib.suppress(OSError):
                self._sink.shutdown(socket.SHUT_WR)
            self._pair.end_if_done()
        else:
            self.watch()


def _nothing() -> None:
    return
