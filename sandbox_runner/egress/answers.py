"""Refusals, as the program inside the sandbox gets them: a status, and a body that says why and what to do."""

from __future__ import annotations

import json
import re

from sandbox_runner.egress import http1

_PHRASE = re.compile(r"[^\x20-\x7e]")


class Refused(Exception):
    """A request does not go out. ``kind`` is a word for programs, ``reason`` and ``how`` are sentences."""

    def __init__(
        self, status: int, kind: str, reason: str, how: str, host: str = "", port: int = 0, approval: str | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.kind = kind
        self.reason = reason
        self.how = how
        self.host = host
        self.port = port
        self.approval = approval

    def body(self) -> bytes:
        said = {
            "error": self.kind,
            "host": self.host,
            "port": self.port,
            "reason": self.reason,
            "how": self.how,
            "approval": self.approval,
            "by": "nightporter egress",
        }
        return json.dumps(said, indent=2).encode() + b"\n"

    def response(self, *, head_only: bool = False) -> bytes:
        """The whole response. The reason is the status line's phrase too: for a tunnel clients show nothing else."""
        phrase = _PHRASE.sub("?", f"Nightporter: {self.reason}")[:200].encode()
        body = self.body()
        headers = [
            (b"Content-Type", b"application/json"),
            (b"Content-Length", str(len(body)).encode()),
            (b"X-Nightporter-Egress", self.kind.encode()),
            (b"Connection", b"close"),
        ]
        return http1.head(b"HTTP/1.1 %d %b" % (self.status, phrase), headers) + (b"" if head_only else body)
