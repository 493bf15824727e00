"""Asks an MCP server elsewhere, through the egress proxy: one JSON request on standard input, one answer on output.

https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#streamable-http. Runs inside the sandbox:
whether the host may be reached, and with whose credential, is decided outside of it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.error
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from http.client import HTTPResponse
    from typing import Any

PROTOCOL = "2025-06-18"
MOST_BYTES = 1 << 20
MOST_EVENTS = 1000


class NotFollowed(urllib.request.HTTPRedirectHandler):
    """Whoever is asked answers: the address is the operator's, not the server's to change."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Session:
    """One exchange with a server: hello, one question, goodbye."""

    def __init__(self, url: str, headers: dict[str, str], seconds: float) -> None:
        self._url, self._seconds = url, seconds
        self._headers = {
            **headers,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": "Nightporter",
        }
        self._opener = urllib.request.build_opener(NotFollowed())

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "nightporter", "version": "1"}}
        said = self._post({"id": 1, "method": "initialize", "params": hello})
        if "result" not in said:
            return said
        version = said["result"].get("protocolVersion") if isinstance(said["result"], dict) else None
        self._headers["MCP-Protocol-Version"] = version if isinstance(version, str) else PROTOCOL
        self._post({"method": "notifications/initialized"})
        answer = self._post({"id": 2, "method": method, "params": params})
        if "Mcp-Session-Id" in self._headers:
            with contextlib.suppress(OSError, ValueError):
                self._open("DELETE", None).close()
        return answer

    def _post(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._open("POST", json.dumps({"jsonrpc": "2.0", **message}).encode()) as response:
            session = response.headers.get("Mcp-Session-Id")
            if session and session.isprintable():
                self._headers["Mcp-Session-Id"] = session
            if "id" not in message:
                return {}
            if response.headers.get_content_type() == "text/event-stream":
                return _of_events(response, message["id"])
            return _answer(response.read(MOST_BYTES + 1), message["id"]) or {"refused": "its answer is not of MCP"}

    def _open(self, method: str, data: bytes | None) -> HTTPResponse:
        request = urllib.request.Request(self._url, data=data, headers=self._headers, method=method)
        response: HTTPResponse = self._opener.open(request, timeout=self._seconds)
        return response


def _of_events(response: HTTPResponse, number: int) -> dict[str, Any]:
    """The answer among the events of a stream."""
    data, read = b"", 0
    for _ in range(MOST_EVENTS):
        line = response.readline(MOST_BYTES + 1)
        read += len(line)
        if not line or read > MOST_BYTES:
            break
        if line.startswith(b"data:"):
            data += line[5:].strip()
        elif not line.strip() and data:
            found = _answer(data, number)
            if found is not None:
                return found
            data = b""
    return {"refused": "it ended without an answer, or its answer is too long"}


def _answer(data: bytes, number: int) -> dict[str, Any] | None:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("id") != number or "method" in message:
        return None
    return {key: message[key] for key in ("result", "error") if key in message}


def _refusal(error: urllib.error.HTTPError) -> dict[str, Any]:
    """What the proxy itself said, where it was the proxy: it answers in JSON of its own."""
    try:
        said = json.loads(error.read(65536))
    except (ValueError, RecursionError, OSError):
        said = None
    if isinstance(said, dict) and isinstance(said.get("reason"), str) and "error" in said:
        return {"refused": said["reason"], "how": str(said.get("how", ""))}
    return {"refused": f"the server answered {error.code} {error.reason}"}


def main() -> None:
    given = json.loads(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    try:
        answer = Session(given["url"], given["headers"], given["seconds"]).ask(given["method"], given["params"])
    except urllib.error.HTTPError as error:
        answer = _refusal(error)
    except (OSError, ValueError) as error:
        answer = {"refused": str(getattr(error, "reason", error))}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
