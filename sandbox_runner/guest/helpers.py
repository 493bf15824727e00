"""Small programs of the guest's own, each run for one request of the host: they read and edit files, and fetch pages.

They are processes of the sandbox like any other, with its rights and limits: what hangs or blows up is one of them and
never the guest. A request is known by its call id as a command is, so that asking twice never does it twice.
"""

from __future__ import annotations

import os
import signal
import sys

from .output import decode
from .requests import BadRequest, without_terminal
from .spawn import exit_code_of, spawn
from .terminal import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .loop import Loop, Timer
    from .results import Results

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "aides")
NAMES = ("files", "fetch", "mcp_http")
MOST = 4
OUTPUT_BYTES = 1 << 20


class Helper:
    """One that runs: its process, where its answer goes, and until when it may take."""

    def __init__(self, call: Call, pid: int, output: int) -> None:
        self.call = call
        self.pid = pid
        self.output = output
        self.timer: Timer | None = None
        self.cut_off = False


class Helpers:
    """Those under way, by process."""

    def __init__(self, loop: Loop, base: dict[str, str], workspace: str, results: Results) -> None:
        self._loop = loop
        self._base = base
        self._workspace = workspace
        self._results = results
        self._running: dict[int, Helper] = {}

    def pids(self) -> set[int]:
        return set(self._running)

    def start(self, call: Call, name: str, request: str) -> None:
        """Run the helper ``name`` with ``request`` on its standard input. Raises BadRequest, OSError."""
        if name not in NAMES:
            raise BadRequest(f"there is no helper {name[:40]!r}")
        if len(self._running) >= MOST:
            raise BadRequest(f"{MOST} helpers are at work already; ask again when one has ended")
        given = os.memfd_create("request", os.MFD_CLOEXEC)
        output = os.memfd_create("answer", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(given), "wb") as file:
                file.write(request.encode("utf-8", "surrogatepass"))
            os.lseek(given, 0, os.SEEK_SET)
            argv = [sys.executable, "-I", "-S", "-B", os.path.join(FOLDER, f"{name}.py")]
            cwd = self._workspace if os.path.isdir(self._workspace) else "/"
            pid = spawn(argv, self._base, cwd, stdin=given, stdout=output)
        except OSError:
            os.close(output)
            raise
        finally:
            os.close(given)
        helper = self._running[pid] = Helper(call, pid, output)
        helper.timer = self._loop.call_later(call.timeout_s, lambda: self._cut_off(helper))

    def interrupt(self) -> bool:
        """End all of them; whether there were any."""
        for helper in list(self._running.values()):
            self._cut_off(helper)
        return bool(self._running)

    def _cut_off(self, helper: Helper) -> None:
        helper.cut_off = True
        try:
            os.killpg(helper.pid, signal.SIGKILL)
        except OSError:
            return

    def reaped(self, pid: int, status: int) -> None:
        """A child has ended: if it was one of these, its answer goes out."""
        helper = self._running.pop(pid, None)
        if helper is None:
            return
        if helper.timer is not None:
            helper.timer.cancel()
        with os.fdopen(helper.output, "rb") as file:
            file.seek(0)
            text = decode(file.read(OUTPUT_BYTES))
        code = None if helper.cut_off else exit_code_of(status)
        self._results.settle(helper.call, without_terminal(helper.call, self._workspace, text, code))
