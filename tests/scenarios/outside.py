"""A web server of this machine, which keeps what it was told."""

from __future__ import annotations

import http.server
import threading


class Outside:
    """``said``: the bodies of all requests, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []
        outside = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outside.said.append(self.rfile.read(int(self.headers.get("content-length") or 0)).decode())
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Outside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
