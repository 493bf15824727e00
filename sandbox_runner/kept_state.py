"""The process state that a volume keeps, believed only where it is authentic and not an older one put back.

Whoever can write to a volume can write ``session_state.json``: what runs inside, or a person on the host. So the guest
seals each one with a key of its sandbox's life (``guest/seal.py``); the key they come from, the highest number that was
committed and the digest of the file that goes with the last generation are in the database. What is not believed is
told, and the last good one is taken from the generations.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass

from agent.sandbox import BackgroundTask
from sandbox_runner import texts
from sandbox_runner.guest import seal, state_file
from workspace_store.beneath import UnsafePath
from workspace_store.packs import VolumeError
from workspace_store.tenancy import Tenant
from workspace_store.volumes import Volume

STATE_FILE = "home/.nightporter/session_state.json"
STATE_FILE_BYTES = 256 << 10
LIFE = 1 << 20
"""How far apart the numbers of two lives begin: one that was lost with what it wrote has used fewer."""
_GENERATIONS = 20
_VERSION = re.compile(rb'\n "version": ([0-9]{1,9})\n\}\s*\Z')
"""Keys are sorted: it is the last."""


class Refused(Exception):
    """The state is not to be believed; the text says why."""


@dataclass(frozen=True)
class Found:
    """What a sandbox is to start from. ``number``: what its own states are numbered after."""

    data: bytes | None
    number: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """The state in a generation. ``digest``: of the terminals in it.

    ``number`` and ``pin`` (SHA-256 of the file) are for the database, where the state is authentic.
    """

    digest: str | None
    number: int = 0
    pin: str | None = None


def life_key(held: Tenant, life: str) -> str:
    """The key that the sandbox of that life seals with."""
    return hmac.new(bytes.fromhex(held.state_key or ""), life.encode(), "sha256").hexdigest()


def number_of(data: bytes, held: Tenant) -> int:
    """The number of an authentic state; one without a seal is of the release before. Raises Refused."""
    if hashlib.sha256(data).hexdigest() == held.state_pin:
        return 0
    try:
        found = seal.read(data)
    except seal.Unsealed:
        if _of_release_before(data) and held.generation and not held.state_high and held.state_pin is None:
            return 0
        raise Refused(texts.state_damaged(_is_json(data))) from None
    if not found.fits(life_key(held, found.life)):
        raise Refused(texts.state_damaged(_is_json(data)))
    return found.number


def _must_be_read_here(data: bytes) -> None:
    """A release that is newer may have written it, on another host. Raises Refused."""
    version = _VERSION.search(data)
    if version is not None and int(version[1]) > max(state_file.READS):
        raise Refused(texts.state_is_newer(int(version[1]), max(state_file.READS)))


def find(volume: Volume, held: Tenant) -> Found:
    """The state to wake with, and what a person should know of it."""
    try:
        data = volume.read_file(STATE_FILE, max_bytes=STATE_FILE_BYTES)
        number = number_of(data, held)
        _must_be_read_here(data)
        if 0 < number <= held.state_high:
            raise Refused(texts.STATE_IS_OLDER)
        return Found(data, max(number, held.state_high) + LIFE)
    except FileNotFoundError:
        if (not held.state_high and held.state_pin is None) or _went_back_to_none(volume, held):
            return Found(None, held.state_high + LIFE)
        why = texts.STATE_IS_GONE
    except Refused as refusal:
        why = str(refusal)
    except (UnsafePath, VolumeError, OSError) as error:
        why = texts.state_unreadable(str(error))
    return _last_good(volume, held, why)


def _went_back_to_none(volume: Volume, held: Tenant) -> bool:
    """Whether the last generation has no state, as after an undo of the first turn: then none is missing."""
    try:
        volume.read_file(STATE_FILE, held.generation, max_bytes=STATE_FILE_BYTES)
    except FileNotFoundError:
        return held.state_pin is None
    except (UnsafePath, VolumeError, OSError):
        return False
    return False


def _last_good(volume: Volume, held: Tenant, why: str) -> Found:
    number = held.state_high + LIFE
    kept = sorted((each for each in volume.numbers() if each <= held.generation), reverse=True)
    for generation in kept[:_GENERATIONS]:
        try:
            data = volume.read_file(STATE_FILE, generation, max_bytes=STATE_FILE_BYTES)
            number_of(data, held)
            _must_be_read_here(data)
        except (Refused, UnsafePath, VolumeError, OSError):
            continue
        return Found(data, number, (texts.state_refused(why, generation),))
    return Found(None, number, (texts.state_refused(why, None),))


def see(volume: Volume, held: Tenant, generation: int, *, wanted: bool = False) -> Seen:
    """What a generation holds. ``wanted``: it was put there on purpose, whoever sealed it."""
    try:
        data = volume.read_file(STATE_FILE, generation, max_bytes=STATE_FILE_BYTES)
    except (UnsafePath, VolumeError, OSError):
        return Seen(None)
    digest, pin = _terminals(data), hashlib.sha256(data).hexdigest()
    try:
        number = number_of(data, held)
        stale = 0 < number <= held.state_high and pin != held.state_pin
    except Refused:
        number, stale = 0, True
    return Seen(digest, number, pin) if wanted or not stale else Seen(digest)


def digest(volume: Volume) -> str | None:
    """Digest of the terminals' records in the published process state; None: there is none that can be read.

    Of the terminals only, hex SHA-256 of their canonical JSON: they change with commands and with nothing else, while
    background tasks come and go by themselves. Read from the live directory, since what a guest says is not proof.
    """
    try:
        return _terminals(volume.read_file(STATE_FILE, max_bytes=STATE_FILE_BYTES))
    except (OSError, UnsafePath, VolumeError):
        return None


def shown(volume: Volume) -> tuple[str, tuple[str, ...]]:
    """The main terminal's directory and the commands of background tasks, as published; empty where none can be read.

    Written by a sandbox: words to be shown, nothing more.
    """
    try:
        state = json.loads(volume.read_file(STATE_FILE, max_bytes=STATE_FILE_BYTES))
        main = state["terminals"].get("main") or {}
        tasks = [task for task in state.get("tasks", ()) if isinstance(task, dict)]
        commands = (" ".join(" ".join(map(str, task.get("argv") or ())).split())[:200] for task in tasks[:20])
        return str(main.get("cwd") or "")[:400], tuple(filter(None, commands))
    except (OSError, UnsafePath, VolumeError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "", ()


def sleeping_tasks(volume: Volume, held: Tenant) -> list[BackgroundTask]:
    """What the next wake would start again, of the state that it would believe."""
    found = find(volume, held).data
    return [
        BackgroundTask(
            each["task"], tuple(each["argv"]), each["cwd"], "stopped", None, each["log"], each["policy"],
            each["starts"], each["started_at"],
        )
        for each in (state_file.tasks_to_restart(found) if found else ())
    ]  # fmt: skip


def _terminals(data: bytes) -> str | None:
    try:
        terminals = json.dumps(json.loads(data)["terminals"], sort_keys=True, separators=(",", ":"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return hashlib.sha256(terminals.encode()).hexdigest()


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


def _of_release_before(data: bytes) -> bool:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("version") == 1
