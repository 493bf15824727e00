"""What the host may ask: each operation reads its request and answers once, now or later."""

from __future__ import annotations

import os
import signal
import sys

from . import crontab, restoring, starting
from .framing import MAX_FRAME
from .output import LiveOutput, decode
from .requests import BadRequest, count, number, string
from .screening import Screening
from .tasks import STOP_GRACE_S, Task
from .terminal import Call, Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .agent import Guest

    Answer = Callable[[dict[str, Any]], None]

PROTOCOL = 1
DEFAULT_TIMEOUT_S = 120.0
DEFAULT_OUTPUT_BYTES = 1 << 20
INSIST_S = 0.8
"""Between asking a command to end and ending it."""


def _hello(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    python = ".".join(map(str, sys.version_info[:3]))
    answer({"protocol": PROTOCOL, "pid": os.getpid(), "python": python, "workspace": guest.workspace})


def _restore(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    if guest.restored or guest.terminals:
        raise BadRequest("restore comes once, before any command")
    state, seal = frame.get("state"), frame.get("seal")
    if state is not None and not isinstance(state, str):
        raise BadRequest("state must be a string")
    if isinstance(seal, dict):
        guest.publisher.seal_with(string(seal, "life", 200), string(seal, "key", 64), count(seal, "number"))
    if frame.get("screens") is True:
        guest.publisher.screening = Screening(guest.connection)
    guest.restored = True
    base = frame.get("base")
    notes = guest.environment.wake(base) if isinstance(base, dict) else []
    restoring.restore(guest, guest.loop, state, lambda said: answer({**said, "notes": [*said["notes"], *notes]}))


def _run(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    if not guest.restored:
        raise BadRequest("restore comes first: a command before it would write over the saved state")
    call_id, command = string(frame, "call_id", 200), string(frame, "command", MAX_FRAME)
    if guest.results.wait(call_id, answer):
        return
    if "\0" in command:
        raise BadRequest("a command cannot hold a NUL character")
    terminal = guest.terminal(string(frame, "terminal", 64, "main"))
    timeout = number(frame, "timeout_s", DEFAULT_TIMEOUT_S)
    size = int(number(frame, "output_bytes", DEFAULT_OUTPUT_BYTES))
    call = Call(call_id, command, terminal.name, timeout, max(1024, min(size, DEFAULT_OUTPUT_BYTES)))
    guest.results.add(call, answer)
    if frame.get("background") is True:
        starting.run_in_background(guest, call, terminal, _policy(frame, "restart"))
        return
    call.live = LiveOutput(guest.loop, lambda text: guest.show(call_id, text))
    guest.watch.when_relieved(lambda: terminal.submit(call))


def _assist(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    if not guest.restored:
        raise BadRequest("restore comes first")
    call_id = string(frame, "call_id", 200)
    if guest.results.wait(call_id, answer):
        return
    name, request = string(frame, "helper", 40), string(frame, "request", MAX_FRAME)
    call = Call(call_id, name, "", number(frame, "timeout_s", DEFAULT_TIMEOUT_S), DEFAULT_OUTPUT_BYTES)
    if name == "mcp":
        guest.mcp.start(call, request)
    else:
        guest.helpers.start(call, name, request)
    guest.results.add(call, answer)


def _result(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    if not guest.results.wait(string(frame, "call_id", 200), answer):
        answer({"unknown": True})


def _interrupt(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    if frame.get("terminal") is None:
        helped = guest.helpers.interrupt() | guest.mcp.interrupt()
        stopped = [_interrupt_terminal(guest, terminal) for terminal in list(guest.terminals.values())]
        answer({"interrupted": helped or any(stopped)})
        return
    terminal = guest.terminals.get(string(frame, "terminal", 64))
    answer({"interrupted": terminal is not None and _interrupt_terminal(guest, terminal)})


def _interrupt_terminal(guest: Guest, terminal: Terminal) -> bool:
    """End what runs there in the foreground: it is asked first. False: nothing does."""
    call = terminal.current
    if call is None or terminal.shell is None:
        return False
    call.interrupted = True
    shell = terminal.shell
    shell.interrupt(signal.SIGINT)

    def insist(spared: bool = False) -> None:
        if terminal.current is not call or terminal.shell is not shell:
            return
        if shell.foreground() == shell.pid and not spared:
            # What it ran is over. Its end would cost what the terminal holds, and it may be about to report.
            guest.loop.call_later(INSIST_S, lambda: insist(spared=True))
        else:
            shell.interrupt(signal.SIGKILL)
            guest.loop.call_later(0.5, lambda: insist(spared))

    guest.loop.call_later(INSIST_S, insist)
    return True


def _list_tasks(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    guest.look()
    answer({"tasks": [task.told() for task in guest.tasks.all()]})


def _task_output(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    size = int(number(frame, "tail_bytes", 8192))
    answer({"output": decode(guest.tasks.output(_task(guest, frame), max(0, min(size, 256 << 10))))})


def _task_stop(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    task = _task(guest, frame)
    grace = number(frame, "grace_s", STOP_GRACE_S)
    guest.tasks.stop(task, lambda: answer({"task": task.told()}), grace)
    guest.change()


def _task_start(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    task = _task(guest, frame)
    starting.at_word(guest, task, _policy(frame, ""))
    answer({"task": _task(guest, frame).told()})


def _policy(frame: dict[str, Any], default: str) -> str:
    policy = string(frame, "policy", 10, default)
    if policy not in (*starting.POLICIES, default):
        raise BadRequest(f"a policy is one of {', '.join(starting.POLICIES)}")
    return policy


def _told(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    task = guest.tasks.get(frame.get("task"))
    if task is not None and task.untold and task.starts == frame.get("starts"):
        task.untold = False
        guest.change()
    answer({})


def _capture(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    guest.look()
    if not guest.restored or any(terminal.current for terminal in guest.terminals.values()):
        answer({"digest": None, "notes": []})
        return
    notes = guest.publish()
    answer({"digest": guest.publisher.digest, "notes": notes})


def _shutdown(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    grace = number(frame, "grace_s", 2.0)
    guest.look()
    guest.sleeping = guest.tasks.running()
    for task in guest.sleeping:
        task.look()
    left = [len(guest.sleeping)]

    def finish() -> None:
        if left[0] >= 0:
            left[0] = -1
            guest.environment.before_sleep(end)

    def end() -> None:
        notes = guest.publish() if guest.restored else []
        answer({"digest": guest.publisher.digest, "notes": notes})
        guest.connection.flush()
        guest.end()

    def one_less() -> None:
        left[0] -= 1
        if left[0] == 0:
            finish()

    for task in list(guest.sleeping):
        guest.tasks.stop(task, one_less, grace)
    if not guest.sleeping:
        finish()
    else:
        guest.loop.call_later(grace, finish)


def _task(guest: Guest, frame: dict[str, Any]) -> Task:
    task = guest.tasks.get(frame.get("task"))
    if task is None:
        raise BadRequest(f"there is no task {str(frame.get('task'))[:20]}")
    return task


def _run_timer(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    command, environment = string(frame, "command", crontab.MAX_BYTES), frame.get("environment")
    if not isinstance(environment, dict) or not all(isinstance(value, str) for value in environment.values()):
        raise BadRequest("environment must be names and values")
    note = string(frame, "note", 4000, "")
    if note:
        guest.note(note)
    task = starting.run_timer(guest, command, environment)
    answer({"task": task.told() if task is not None else None})


def _note(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    notes = frame.get("notes")
    for text in notes[:100] if isinstance(notes, list) else []:
        guest.note(str(text)[:4000])
    answer({})


def _hold(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    answer({"processes": guest.holding.hold(guest, string(frame, "note", 4000))})


def _release(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    answer({"processes": guest.holding.release(guest)})


def _live(guest: Guest, frame: dict[str, Any], answer: Answer) -> None:
    seconds = frame.get("seconds")
    if not isinstance(seconds, int | float) or not 0 < seconds < 3600:
        raise BadRequest("seconds must be a number above 0")
    guest.lifetime.last(seconds)
    answer({})


OPERATIONS: dict[str, Callable[[Guest, dict[str, Any], Answer], None]] = {
    "hello": _hello,
    "restore": _restore,
    "run": _run,
    "assist": _assist,
    "result": _result,
    "interrupt": _interrupt,
    "tasks": _list_tasks,
    "task_output": _task_output,
    "task_stop": _task_stop,
    "task_start": _task_start,
    "told": _told,
    "capture": _capture,
    "run_timer": _run_timer,
    "note": _note,
    "hold": _hold,
    "release": _release,
    "live": _live,
    "shutdown": _shutdown,
}
