"""One persistent bash under a PTY: typing commands into it and hearing, beside its output, when they ended.

The end of a command is told twice with a random token: in the terminal's stream (where its output ends) and on a
FIFO (status and state). A command never sees the token, so nothing that it prints is taken for its end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import time

from . import processes
from . import shell_scripts as scripts
from .limits import Pair
from .loop import Loop, Timer
from .processes import has_children, open_file, send_signal
from .shell_state import Dump, function_environment, restore_script
from .spawn import exit_code_of, open_terminal, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .shell_state import State

_READ_BYTES = 1 << 16
_READ_AT_ONCE = 1 << 20
_REPORT_BYTES = 4 << 20
_LATE_MARKER_S = 0.3
_DRAIN_S = 0.015
_CHECK_S = 0.5
_STUCK_CHECKS = 2
_PROGRAM_CHARS = 200
_DUMP_ENDS_S = 0.001
_DUMP_ENDS_TRIES = 100
_HIDDEN_NOTE = (
    "functions called builtin or ., or what hid builtins, were removed: the terminal could not go on with them"
)


class Shell:
    """Callbacks: ``on_report`` with a dump (None: too large to keep) at each end of a command and once at the start
    (``token`` tells), ``on_exit`` with the exit code when bash itself ended."""

    def __init__(
        self,
        loop: Loop,
        folder: str,
        environment: dict[str, str],
        cwd: str,
        state: State | None,
        history: list[str],
        on_report: Callable[[str, Dump | None], None],
        on_exit: Callable[[int], None],
        limits: dict[int, Pair] | None = None,
    ) -> None:
        self._loop = loop
        self._folder = folder
        self._status = state["status"] if state else None
        """What ``$?`` was when the state was taken: the first command finds it."""
        self.on_report = on_report
        self.on_exit = on_exit
        self.start_token = os.urandom(12).hex()
        self.ready = False
        self.ended = False
        self.notes: list[str] = []
        self._token = self.start_token
        self._sink: Callable[[bytes], None] | None = None
        self._phase = "between"
        self._carry = b""
        self._report = bytearray()
        self._dump: Dump | None = None
        self.reported = False
        self._late: Timer | None = None
        self._check: Timer | None = None
        self._checks = 0
        self._targets = ["terminal", "terminal"]
        self._fifo = -1
        self._make_files()
        functions, refused = function_environment(state) if state else ({}, [])
        self.notes += [f"not restored: function {name}" for name in refused]
        script, notes = restore_script(state, self._dump_line(self.start_token), history)
        self.notes += notes
        self._write("start", script)
        self._master, slave, self._settings = open_terminal()
        self.argv = ["bash", "--noprofile", "--noediting", "--rcfile", self._path("start"), "-O", "extglob", "-i"]
        try:
            self.pid = spawn(
                self.argv,
                # Bash takes the name of its folder from PWD where that is one of it: a link's name stays.
                {**environment, **functions, "PWD": cwd},
                cwd,
                stdin=slave,
                stdout=slave,
                controlling_terminal=True,
                limits=limits,
            )
        except OSError:
            os.close(self._master)
            self._close_files()
            raise
        finally:
            os.close(slave)
        loop.add_reader(self._master, self._readable)

    def run(self, token: str, command: bytes, history_entry: str | None, sink: Callable[[bytes], None]) -> None:
        """Type one command. ``sink`` gets what it prints until its report."""
        self._make_files()
        self._write("begin", scripts.begin_script(history_entry))
        self._write("command", command)
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._master, termios.TCSANOW, self._settings)  # type: ignore[arg-type]
        self._token, self._sink, self._phase, self._carry = token, sink, "begin", b""
        self._report.clear()
        self._dump, self.reported, self._checks = None, False, 0
        self._type(
            scripts.call_lines(self._path("begin"), self._path("command"), self._dump_line(token), token, self._status)
        )
        self._status = None
        self._check = self._loop.call_later(_CHECK_S, self._check_files)

    @property
    def command_path(self) -> str:
        return self._path("command")

    @property
    def has_begun(self) -> bool:
        """Whether the command itself was reached: before it come the shell's start and what its state makes it do."""
        return self._phase != "begin"

    def take_notes(self, outputs: list[str]) -> list[str]:
        """What the person should know of the shell after a command; told once for as long as it is so.

        ``outputs``: where standard output and error went by the dump, which turned them elsewhere while it was made.
        """
        notes, self.notes = self.notes, []
        targets = [self._named(number, said) for number, said in enumerate(outputs, 1)]
        for name, target, before in zip(("output", "error"), targets, self._targets):  # noqa: B905 - strict= is 3.10
            if target == "closed":
                notes.append(f"the standard {name} of this terminal was closed; it is opened again")
            elif target not in (before, "terminal"):
                notes.append(f"the standard {name} of this terminal goes to {target} from now on")
        self._targets = targets
        return notes

    def _named(self, number: int, said: str) -> str:
        """Where a descriptor of the shell goes, by name; it goes where the dump sent it for a moment longer."""
        if said != "other":
            return said
        for _ in range(_DUMP_ENDS_TRIES):
            target = open_file(self.pid, number)
            # The dump's own: it writes reports and, at last, to the terminal.
            if target and not target.startswith(("/dev/null", "/dev/tty", "/dev/pts/", self._folder)):
                return target
            time.sleep(_DUMP_ENDS_S)
        return "another file"

    def kept_open(self) -> list[str]:
        return processes.kept_open(self.pid, self._folder)

    def foreground(self) -> int:
        """The process group that has the terminal; the shell's own pid when it runs nothing."""
        try:
            return os.tcgetpgrp(self._master)
        except OSError:
            return self.pid

    def interactive_program(self) -> str:
        """What reads the terminal in the foreground (a REPL, an editor, an ssh), as it is known; empty: nothing."""
        group = self.foreground()
        if group <= 1 or group == self.pid:
            return ""
        members = sorted(process.pid for process in processes.scan().values() if process.group == group)
        try:
            raw = not termios.tcgetattr(self._master)[3] & termios.ICANON
        except termios.error:
            raw = False
        for pid in members:
            if raw or processes.reads_terminal(pid):
                # Whatever folder it was found in: that is nobody's word for it.
                program, *rest = processes.arguments(pid)
                return " ".join([os.path.basename(program), *rest])[:_PROGRAM_CHARS]
        return ""

    def interrupt(self, number: int) -> None:
        """As Ctrl-C: the foreground group gets it and, with SIGINT, the shell, which then gives up the whole line."""
        group = self.foreground()
        if group > 1 and group != self.pid:
            with contextlib.suppress(OSError):
                os.killpg(group, number)
        if number == signal.SIGINT or group == self.pid:
            send_signal(self.pid, number)

    def reaped(self, status: int) -> None:
        """The process ended. What it printed last is still on its way through the terminal for a moment."""
        self.ended = True

        def drained() -> None:
            self._readable()
            self._flush_carry()
            code = exit_code_of(status)
            self.close()
            self.on_exit(code)

        self._loop.call_later(_DRAIN_S, drained)

    def close(self) -> None:
        """Give back descriptors and files; a process that still runs is killed."""
        if not self.ended:
            send_signal(self.pid, signal.SIGKILL)
        if self._master >= 0:
            self._loop.remove_reader(self._master)
            os.close(self._master)
            self._master = -1
        for timer in (self._check, self._late):
            if timer is not None:
                timer.cancel()
        self._close_files()

    def _dump_line(self, token: str) -> str:
        return scripts.dump_line(self._path("dump"), self._path("report"), token)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, name: str, text: str | bytes) -> None:
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        descriptor = os.open(self._path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)

    def _make_files(self) -> bool:
        """Whether they had to be made: at the start, and after a command cleared the temporary folder."""
        path = self._path("report")
        if self._fifo >= 0 and os.path.exists(self._path("dump")):
            try:
                if os.path.samestat(os.stat(path), os.fstat(self._fifo)):
                    return False
            except OSError:
                pass
        self._close_files()
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        os.mkfifo(path, 0o600)
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._write("dump", scripts.dump_script(path, self._path("names")))
        self._loop.add_reader(self._fifo, self._report_readable)
        return True

    def _close_files(self) -> None:
        if self._fifo >= 0:
            self._loop.remove_reader(self._fifo)
            os.close(self._fifo)
            self._fifo = -1
        for name in ("begin", "command", "dump", "names", "report", "start"):
            with contextlib.suppress(OSError):
                os.unlink(self._path(name))
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)

    def _check_files(self) -> None:
        if self.reported or self.ended or self._master < 0:
            return
        self._checks = self._checks + 1 if self._waits_for_typing() else 0
        if self.reported:
            return
        if self._checks == _STUCK_CHECKS:
            if _HIDDEN_NOTE not in self.notes:
                self.notes.append(_HIDDEN_NOTE)
            self._type(f" {scripts.REVEAL}{self._dump_line(self._token)}\n".encode())
        if self._make_files():
            self._type(f" {self._dump_line(self._token)}\n".encode())
        self._check = self._loop.call_later(_CHECK_S, self._check_files)

    def _waits_for_typing(self) -> bool:
        """The command is over, or reads the terminal itself, and nothing was reported."""
        if not self.has_begun or self.foreground() != self.pid or has_children(self.pid):
            return False
        # Bash itself may be busy, with a loop or with its report; or the report lies here unread.
        self._report_readable()
        return not self.reported and processes.waits_for_typing(self.pid)

    def _type(self, line: bytes) -> None:
        try:
            os.write(self._master, line)
        except OSError:
            return  # the shell has just ended: its exit is the answer

    def _readable(self) -> None:
        taken = 0
        while taken < _READ_AT_ONCE and self._master >= 0:
            pieces = []
            size = 0
            try:
                while size < _READ_BYTES:
                    piece = os.read(self._master, _READ_BYTES)
                    if not piece:
                        break
                    pieces.append(piece)
                    size += len(piece)
            except BlockingIOError:
                pass
            except OSError:  # EIO: nobody has the other side open any more
                self._loop.remove_reader(self._master)
            if not pieces:
                return
            taken += size
            self._feed(b"".join(pieces))

    def _feed(self, data: bytes) -> None:
        if self._phase == "between":
            return
        data = self._carry + data
        self._carry = b""
        if self._phase == "begin":
            marker = scripts.begin_marker(self._token)
            start = data.find(marker)
            if start < 0:
                self._carry = data[-(len(marker) - 1) :]
                return
            self._phase = "body"
            data = data[start + len(marker) :]
        marker = scripts.end_marker(self._token)
        end = data.find(marker)
        if end >= 0:
            self._emit(data[:end])
            self._phase = "between"
            self._deliver()
            return
        held = data.rfind(scripts.RECORD.encode(), max(0, len(data) - len(marker) + 1))
        if held >= 0:
            self._carry = data[held:]
            data = data[:held]
        self._emit(data)

    def _emit(self, data: bytes) -> None:
        if data and self._sink is not None:
            self._sink(data)

    def _flush_carry(self) -> None:
        if self._phase == "body":
            self._emit(self._carry)
        self._carry = b""

    def _report_readable(self) -> None:
        try:
            data = os.read(self._fifo, 1 << 20)
        except OSError:
            return
        self._report += data
        if not self.ready:
            # A command may have been typed already: bash reads it once it has started.
            found = self._take_report(self.start_token)
            if found:
                self.ready = True
                self.on_report(self.start_token, found[0])
        if not self.reported and self._token != self.start_token:
            found = self._take_report(self._token)
            if found:
                self.reported, self._dump = True, found[0]
                if not self._deliver():
                    # The marker is on its way, or will never come (the command closed the terminal).
                    self._late = self._loop.call_later(_LATE_MARKER_S, self._without_marker)
        if self.reported:
            self._report.clear()

    def _take_report(self, token: str) -> tuple[Dump | None] | None:
        """The report with that token, once it is whole: its dump, None where it was too large."""
        end_mark = f"\0end:{token}\0".encode()
        end = self._report.find(end_mark)
        if end < 0:
            if len(self._report) > _REPORT_BYTES:
                # Keep only what the end can be found in.
                del self._report[: -(1 << 10)]
            return None
        start_mark = f"\0start:{token}\0".encode()
        start = self._report.find(start_mark, 0, end)
        traps_mark = f"\0traps:{token}\0".encode()
        traps = self._report.rfind(traps_mark, 0, max(0, start))
        dump = None
        if start >= 0:
            before = bytes(self._report[traps + len(traps_mark) : start]) if traps >= 0 else b""
            dump = Dump(bytes(self._report[start + len(start_mark) : end]), token, before)
        del self._report[: end + len(end_mark)]
        return (dump,)

    def _without_marker(self) -> None:
        self._readable()
        self._flush_carry()
        self._phase = "between"
        self._deliver()

    def _deliver(self) -> bool:
        if not (self.reported and self._phase == "between" and self._sink is not None):
            return False
        for timer in (self._check, self._late):
            if timer is not None:
                timer.cancel()
        self._sink = None
        self.on_report(self._token, self._dump)
        return True
