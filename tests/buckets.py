"""An S3 server for the tests (moto, as a process over loopback), and a way to it that can fail."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.request import Request, urlopen

from nightporter.testing.servers import die_with_parent
from workspace_store.bucket import Bucket, BucketSettings

KEYS = {"access_key": "test", "secret_key": "test"}
SETTINGS = {f"storage__{key}": value for key, value in KEYS.items()} | {"storage__allow_http": "true"}


class ObjectStore:
    """A moto server."""

    def __init__(self) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port: int = found.getsockname()[1]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent,
        )  # fmt: skip
        self._buckets = 0
        for _ in range(600):
            try:
                urlopen(f"{self.endpoint}/moto-api/", timeout=5).close()
            except (URLError, ConnectionError):
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("moto did not come up")

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def create(self) -> str:
        """A new, empty bucket; its name."""
        self._buckets += 1
        name = f"bucket{self._buckets}"
        urlopen(Request(f"{self.endpoint}/{name}", method="PUT"), timeout=10).close()
        return name

    def open(self, name: str, endpoint: str = "", timeout_seconds: float = 10.0) -> Bucket:
        return Bucket(
            BucketSettings(
                name, "house", endpoint or self.endpoint, allow_http=True, timeout_seconds=timeout_seconds, **KEYS
            )
        )

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Asked:
    """A request on its way to the store."""

    method: str
    path: str
    body: bytes


@dataclass
class FaultyWay:
    """Passes requests on to a store, but for what ``fault`` says: ``busy`` (503), ``torn`` (half of the answer's body),
    ``lost`` (done, and no answer), ``cut`` (not done, no answer), ``hang`` (nothing, until it is closed), ``wrong``
    (another byte in the body), ``blind`` (whatever is there already)."""

    store: ObjectStore
    fault: Callable[[Asked], str] = lambda asked: ""
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        way = self
        self._closed = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                way.pass_on(self, Asked(self.command, self.path, body))

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def names(self, method: str) -> list[str]:
        """What was asked for, without bucket and query."""
        return [path.partition("?")[0] for done, path in self.asked if done == method]

    def pass_on(self, there: BaseHTTPRequestHandler, asked: Asked) -> None:
        self.asked.append((asked.method, asked.path))
        fault = self.fault(asked)
        if fault == "hang":
            self._closed.wait()
        if fault in ("cut", "hang"):
            there.close_connection = True
            return
        if fault == "busy":
            there.send_response(503)
            there.send_header("content-length", "0")
            there.end_headers()
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.store.port, timeout=30)
        dropped = {"transfer-encoding"} | ({"if-match", "if-none-match"} if fault == "blind" else set())
        kept = {name: value for name, value in there.headers.items() if name.lower() not in dropped}
        upstream.request(asked.method, asked.path, asked.body or None, kept)
        answer = upstream.getresponse()
        body = answer.read()
        upstream.close()
        if fault == "lost":
            there.close_connection = True
            return
        if fault == "wrong" and body:
            body = body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :]
        there.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "server", "date"):
                there.send_header(name, value)
        length = answer.getheader("content-length") if asked.method == "HEAD" else str(len(body))
        there.send_header("content-length", length or "0")
        there.end_headers()
        if asked.method != "HEAD":
            there.wfile.write(body[: len(body) // 2] if fault == "torn" else body)
        if fault == "torn":
            there.close_connection = True
