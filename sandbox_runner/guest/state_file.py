"""``session_state.json``: read with suspicion, written atomically.

A person can read it. Whether it is authentic is the host's to say, which hands it over; whatever is wrong with it even
so is left out and said, and never makes a wake fail.
"""

from __future__ import annotations

import json
import os

from .seal import sha256
from .shell_state import checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 2
READS = (1, 2)
"""Its own and that of the release before, which had no seal and kept no ends of tasks."""
MAX_BYTES = 256 << 10
MAX_TERMINALS = 16
MAX_TASKS = 256
CURRENT = "session_state.json"


class Refused(ValueError):
    """The file is not one the guest wrote; the text says why."""


def digest_of(data: bytes) -> str:
    """Hex SHA-256."""
    return str(sha256(data).hexdigest())


def encode(state: dict[str, Any]) -> bytes:
    try:
        return (json.dumps(state, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # bytes that are no UTF-8 travel as escaped surrogates
        return (json.dumps(state, indent=1, sort_keys=True) + "\n").encode()


def _parse(data: bytes) -> dict[str, Any]:
    try:
        state = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refused("it is not whole JSON") from None
    if not isinstance(state, dict):
        raise Refused("it is not a JSON object")
    version = state.get("version")
    if version not in READS or isinstance(version, bool):
        newer = isinstance(version, int) and version > max(READS)
        advice = ": a newer Nightporter wrote it; update this host" if newer else ""
        raise Refused(f"its version is {str(version)[:20]!r}, this guest reads {READS[0]} and {READS[1]}{advice}")
    return state


class Loaded:
    """What a wake starts from. ``digest`` is None when nothing was restored."""

    def __init__(self) -> None:
        self.digest: str | None = None
        self.terminals: dict[str, dict[str, Any]] = {}
        self.tasks: list[dict[str, Any]] = []
        self.ended: list[dict[str, Any]] = []
        """Tasks that ended and nobody was told of; each with its ``exit_code``."""
        self.next_task = 1
        self.crontab = ""
        self.notes: list[str] = []


def load(text: str | None, valid_terminal_name: Any) -> Loaded:
    """What is to be restored of a state; what could not be used is noted."""
    loaded = Loaded()
    if text is None:
        return loaded
    data = text.encode("utf-8", "replace")
    try:
        state = _parse(data)
    except Refused as error:
        loaded.notes.append(f"{CURRENT} was not used: {error}")
        return loaded
    loaded.digest = digest_of(data)
    _take(state, loaded, valid_terminal_name)
    return loaded


def _take(state: dict[str, Any], loaded: Loaded, valid_terminal_name: Any) -> None:
    terminals = state.get("terminals", {})
    if not isinstance(terminals, dict):
        loaded.notes.append("not restored: terminals (not an object)")
        terminals = {}
    for name, raw in sorted(terminals.items())[:MAX_TERMINALS]:
        if not valid_terminal_name(name) or not isinstance(raw, dict):
            loaded.notes.append(f"not restored: terminal {name[:80]!r}")
            continue
        loaded.terminals[name], refused = checked(raw)
        loaded.notes += [f"not restored: {what} of terminal {name}" for what in refused[:20]]
    loaded.tasks = _checked_tasks(state.get("tasks", []), loaded.notes)
    loaded.ended = _checked_tasks(state.get("ended", []), loaded.notes)
    timers = state.get("crontab")
    loaded.crontab = timers if isinstance(timers, str) and "\0" not in timers else ""
    number = state.get("next_task")
    loaded.next_task = number if isinstance(number, int) and 0 < number < 1 << 31 else 1
    loaded.next_task = max([loaded.next_task, *(task["task"] + 1 for task in (*loaded.tasks, *loaded.ended))])


def _checked_tasks(raw: object, notes: list[str]) -> list[dict[str, Any]]:
    found = []
    for each in raw[:MAX_TASKS] if isinstance(raw, list) else []:
        task = _checked_task(each)
        if task is None:
            notes.append("not restored: a background task whose record is malformed")
        else:
            found.append(task)
    return found


def _checked_task(raw: object) -> dict[str, Any] | None:
    if not isinstance(raw, dict):
        return None
    argv, environment = raw.get("argv"), raw.get("environment", {})
    number, starts = raw.get("task"), raw.get("starts", 1)
    if not (isinstance(argv, list) and argv and all(isinstance(item, str) and "\0" not in item for item in argv)):
        return None
    if not isinstance(environment, dict) or not all(
        isinstance(value, str) and "\0" not in name + value and name and "=" not in name
        for name, value in environment.items()
    ):
        return None
    if not isinstance(number, int) or not 0 < number < 1 << 31 or not isinstance(starts, int):
        return None
    cwd, log, policy, code = raw.get("cwd"), raw.get("log"), raw.get("policy"), raw.get("exit_code")
    return {
        "argv": argv[:4096],
        "cwd": cwd if isinstance(cwd, str) and cwd.startswith("/") and "\0" not in cwd else "",
        "environment": environment,
        "exit_code": code if isinstance(code, int) and not isinstance(code, bool) else None,
        "log": log if isinstance(log, str) else "",
        "open": raw["open"][:200] if isinstance(raw.get("open"), str) else "",
        "terminal": raw["terminal"][:64] if isinstance(raw.get("terminal"), str) else "",
        "policy": policy if policy in ("restart", "ask", "never") else "ask",
        "timer": raw.get("timer") is True,
        "started_at": raw["started_at"] if isinstance(raw.get("started_at"), (int, float)) else 0.0,
        "starts": starts,
        "stopped": raw.get("stopped") is True,
        "task": number,
    }


def restarts(record: dict[str, Any]) -> bool:
    """Whether a wake starts that task again by itself."""
    return bool(record["policy"] == "restart" and not (record["stopped"] or record["timer"] or record["open"]))


def tasks_to_restart(data: bytes) -> list[dict[str, Any]]:
    """The records of the tasks that a wake from this state starts again."""
    try:
        tasks = _parse(data).get("tasks", [])
    except Refused:
        return []
    return [record for record in _checked_tasks(tasks, []) if restarts(record)]


def _put_aside(path: str) -> None:
    """What a person put where the guest's own file or folder belongs is kept beside it."""
    os.rename(path, f"{path}.aside-{os.urandom(4).hex()}")


def write(folder: str, name: str, data: bytes, *, durable: bool = True) -> None:
    """Atomic; where not ``durable``, on the disk with the files around it, by the snapshot's sync. Raises OSError."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        _put_aside(folder)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.new")
    for path in (temporary, os.path.join(folder, name)):
        if os.path.isdir(path) and not os.path.islink(path):
            _put_aside(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, 0o600)
    except FileExistsError:
        os.unlink(temporary)
        descriptor = os.open(temporary, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)
    os.replace(temporary, os.path.join(folder, name))
    if not durable:
        return
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def look(folder: str) -> tuple[int, ...]:
    """What tells whether the file is still the one that was written; empty where it is gone."""
    try:
        found = os.lstat(os.path.join(folder, CURRENT))
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode
