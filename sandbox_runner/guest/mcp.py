"""MCP servers that run in the sandbox: started when they are first asked, spoken to over their pipes, and kept until
they end or the sandbox sleeps.

https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#stdio: one JSON-RPC message a line. A server
is a process of the sandbox like any other; what it says is cut to size and handed on, never believed.
"""

from __future__ import annotations

import json
import os
import signal

from .framing import encode
from .requests import BadRequest, without_terminal
from .spawn import exit_code_of, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Loop, Timer
    from .results import Results
    from .terminal import Call

    Told = Callable[[Call, dict[str, Any]], None]

PROTOCOL = "2025-06-18"
MOST_SERVERS = 8
MOST_ANSWER_BYTES = 1 << 20
ERRORS_KEPT = 2000
HELLO = 0
NO_METHOD = -32601


class McpServer:
    """One server: its process, its pipes, and who waits for which answer."""

    def __init__(
        self, loop: Loop, name: str, argv: list[str], environment: dict[str, str], cwd: str, told: Told
    ) -> None:
        self.name, self.argv = name, argv
        self._loop, self._told = loop, told
        self._out = b""
        self._in = b""
        self._errors = b""
        self._next = HELLO + 1
        self._ready = False
        self._queued: list[bytes] = []
        self.waiting: dict[int, tuple[Call, Timer]] = {}
        self.pid, self._stdin, self._stdout, self._stderr = _start(argv, environment, cwd)
        for fd in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(fd, False)
        loop.add_reader(self._stdout, self._read)
        loop.add_reader(self._stderr, self._read_errors)
        self._send({"id": HELLO, "method": "initialize", "params": _WHO})

    def ask(self, call: Call, method: str, params: dict[str, Any], give_up: Timer) -> None:
        """Ask once it has said hello; its answer settles the call."""
        number, self._next = self._next, self._next + 1
        self.waiting[number] = call, give_up
        message = encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        if self._ready:
            self._write(message)
        else:
            self._queued.append(message)

    def cancel(self, call: Call) -> bool:
        """Stop waiting for a call's answer, and say so."""
        number = next((number for number, (waits, _) in self.waiting.items() if waits is call), None)
        if number is None:
            return False
        self.waiting.pop(number)[1].cancel()
        self._send({"method": "notifications/cancelled", "params": {"requestId": number}})
        return True

    def end(self) -> None:
        """Have it ended; its death is told by ``reaped``."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            return

    def close(self) -> str:
        """Its pipes are of no use any more; the last that it said on standard error."""
        self._read_errors()
        for fd in (self._stdin, self._stdout, self._stderr):
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            os.close(fd)
        return self._errors.decode("utf-8", "replace").strip()

    def _send(self, message: dict[str, Any]) -> None:
        self._write(encode({"jsonrpc": "2.0", **message}))

    def _write(self, data: bytes) -> None:
        self._in += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._in:
                self._in = self._in[os.write(self._stdin, self._in[:65536]) :]
        except BlockingIOError:
            self._loop.add_writer(self._stdin, self._flush)
            return
        except OSError:
            self._in = b""  # It has ended, or will be seen to.
        self._loop.remove_writer(self._stdin)

    def _read_errors(self) -> None:
        try:
            data = os.read(self._stderr, 65536)
        except OSError:
            return
        if not data:
            self._loop.remove_reader(self._stderr)
        self._errors = (self._errors + data)[-ERRORS_KEPT:]

    def _read(self) -> None:
        try:
            data = os.read(self._stdout, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            # Nothing it is asked can be answered any more.
            self._loop.remove_reader(self._stdout)
            self.end()
            return
        self._out += data
        *lines, self._out = self._out.split(b"\n")
        for line in lines:
            self._heard(line)
        if len(self._out) > MOST_ANSWER_BYTES:
            self.end()

    def _heard(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        number = message.get("id")
        if "method" in message:
            if number is not None:
                # It asks for something of its own: nothing here offers it anything.
                answer = {"result": {}} if message["method"] == "ping" else {"error": _NOT_OFFERED}
                self._send({"id": number, **answer})
            return
        if number == HELLO and not self._ready and isinstance(number, int):
            if "result" not in message:
                self._errors = json.dumps(message.get("error")).encode()[:ERRORS_KEPT]
                self.end()
                return
            self._ready = True
            self._send({"method": "notifications/initialized"})
            self._write(b"".join(self._queued))
            self._queued.clear()
            return
        found = self.waiting.pop(number, None) if isinstance(number, int) else None
        if found is not None:
            call, give_up = found
            give_up.cancel()
            kept = {key: message[key] for key in ("result", "error") if key in message}
            self._told(call, kept)


_WHO = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "nightporter", "version": "1"}}
_NOT_OFFERED = {"code": NO_METHOD, "message": "the client offers nothing"}


class McpServers:
    """Those that run, by name."""

    def __init__(self, loop: Loop, base: dict[str, str], workspace: str, results: Results) -> None:
        self._loop = loop
        self._base = base
        self._workspace = workspace
        self._results = results
        self._servers: dict[str, McpServer] = {}
        self._ending: dict[int, McpServer] = {}
        """Ended by us or broken, and not reaped yet."""

    def pids(self) -> set[int]:
        return {server.pid for server in self._servers.values()} | set(self._ending)

    def start(self, call: Call, request: str) -> None:
        """Ask a server: ``{"server", "command", "environment", "method", "params"}``. Raises BadRequest, OSError."""
        asked = _read(request)
        name, argv = asked["server"], asked["command"]
        server = self._servers.get(name)
        if server is not None and server.argv != argv:
            self._drop(server)
            server = None
        if server is None:
            if len(self._servers) >= MOST_SERVERS:
                raise BadRequest(f"{MOST_SERVERS} MCP servers run already")
            cwd = self._workspace if os.path.isdir(self._workspace) else "/"
            environment = {**self._base, **asked["environment"]}
            server = self._servers[name] = McpServer(self._loop, name, argv, environment, cwd, self._answer)
        its = server
        give_up = self._loop.call_later(call.timeout_s, lambda: self._cut_off(its, call))
        server.ask(call, asked["method"], asked["params"], give_up)

    def interrupt(self) -> bool:
        """Stop waiting for whatever is waited for; whether there was anything."""
        waiting = [(server, call) for server in self._servers.values() for call, _ in server.waiting.values()]
        for server, call in waiting:
            self._cut_off(server, call)
        return bool(waiting)

    def reaped(self, pid: int, status: int) -> None:
        """A child has ended: if it was one of these, whoever waits for it is told."""
        server = self._ending.pop(pid, None) or next((s for s in self._servers.values() if s.pid == pid), None)
        if server is None:
            return
        if self._servers.get(server.name) is server:
            del self._servers[server.name]
        said = server.close()
        for call, give_up in list(server.waiting.values()):
            give_up.cancel()
            self._answer(call, {"ended": exit_code_of(status), "said": said})
        server.waiting.clear()

    def _drop(self, server: McpServer) -> None:
        del self._servers[server.name]
        self._ending[server.pid] = server
        server.end()

    def _cut_off(self, server: McpServer, call: Call) -> None:
        if server.cancel(call):
            self._settle(call, "", cut_off=True)

    def _answer(self, call: Call, answer: dict[str, Any]) -> None:
        text = json.dumps(answer)
        if len(text) > MOST_ANSWER_BYTES:
            text = json.dumps({"refused": f"its answer of {len(text):,} characters is too long"})
        self._settle(call, text, cut_off=False)

    def _settle(self, call: Call, text: str, *, cut_off: bool) -> None:
        self._results.settle(call, without_terminal(call, self._workspace, text, None if cut_off else 0))


def _start(argv: list[str], environment: dict[str, str], cwd: str) -> tuple[int, int, int, int]:
    """(pid, its standard input, output, error)."""
    stdin, to_it = os.pipe2(os.O_CLOEXEC)
    from_it, stdout = os.pipe2(os.O_CLOEXEC)
    errors, stderr = os.pipe2(os.O_CLOEXEC)
    try:
        pid = spawn(argv, environment, cwd, stdin=stdin, stdout=stdout, stderr=stderr)
    except OSError:
        for fd in (to_it, from_it, errors):
            os.close(fd)
        raise
    finally:
        for fd in (stdin, stdout, stderr):
            os.close(fd)
    return pid, to_it, from_it, errors


def _read(request: str) -> dict[str, Any]:
    try:
        asked = dict(json.loads(request))
        texts = [asked["server"], asked["method"], *asked["command"], *asked["environment"].values()]
        if asked["command"] and isinstance(asked["params"], dict) and all(isinstance(text, str) for text in texts):
            return asked
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise BadRequest("this is no request to an MCP server")
