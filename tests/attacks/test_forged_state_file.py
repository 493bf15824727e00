"""A process state that is not the agent's own: not believed; and were it believed, read as data and never run."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update

from sandbox_runner import kept_state
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.guest import seal
from sandbox_runner.manager import Manager
from tests.sandbox_runner.egress.inside import Inside, inside
from tests.sandbox_runner.egress.yard import yard
from tests.turns.stage import Stage
from workspace_store import tenancy as tenancies
from workspace_store.principal import principal

TOUCH = "touch /workspace/pwned"


def state_file(its: Inside) -> Path:
    return its.workspace.parent / "home/.nightporter/session_state.json"


@pytest.mark.parametrize(
    "changes",
    [
        {"cwd": f"/tmp$({TOUCH})"},
        {"cwd": "../../../../etc"},
        {"umask": f"022; {TOUCH}"},
        {"umask": [TOUCH]},
        {"variables": {f"X; {TOUCH}; Y": {"value": "1", "flags": "x"}}},
        {"variables": {"X": {"value": f"$({TOUCH})", "flags": f"x; {TOUCH}"}}},
        {"variables": {"X[$(touch /workspace/pwned)]": {"value": "1", "flags": "x"}}},
        {"aliases": {f"ll; {TOUCH}": "ls"}},
        {"options": [f"errexit; {TOUCH}"], "shopt": [f"globstar; {TOUCH}"]},
        {"options": f"-x; {TOUCH}"},
        {"limits": {"nofile": f"1; {TOUCH}"}},
        {"history": [f"\n{TOUCH}\n"]},
    ],
)
async def test_a_record_that_is_a_program(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend, changes: dict[str, Any]
) -> None:
    """Only what a person could have typed comes back; nothing of it runs by being read."""
    folder = tmp_path / "volume"
    async with yard(tmp_path, sqlite_url) as made:
        async with inside(made, backend, folder) as its:
            await its.run("X=1; export X; cd /tmp")
            state = json.loads(state_file(its).read_text())
            state["terminals"]["main"].update(changes)
        async with inside(made, backend, folder, state=json.dumps(state).encode()) as its:
            assert await its.output("echo alive") == "alive"
            assert not (its.workspace / "pwned").exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"terminals": ' + b"[" * 20000, b'{"version": 99}', b"{}" * 400_000],
)
async def test_a_file_that_is_none(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend, content: bytes) -> None:
    folder = tmp_path / "volume"
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, folder, state=content) as its:
        assert await its.output("echo alive") == "alive"


# What the host believes


@pytest.fixture
async def house(stage: Stage) -> Stage:
    """With somebody in it."""
    await stage.hear("x")
    return stage


def manager_of(stage: Stage) -> Manager:
    assert stage.manager is not None
    return stage.manager


async def woken(stage: Stage, *commands: str) -> tuple[str, list[str]]:
    """What the commands print in a fresh sandbox, and what its wake told."""
    manager = manager_of(stage)
    report, _ = await manager.wake(stage.owner, "a turn")
    assert report.fresh
    printed = ""
    for command in commands:
        result = await manager.run(
            stage.owner, call_id=uuid4().hex, command=command, terminal="main", timeout=30, background=False,
            on_output=lambda _: None,
        )  # fmt: skip
        printed += result.output
    await manager.give_back(stage.owner, "a turn")
    return printed, list(report.notes)


async def work(stage: Stage, *commands: str) -> tuple[str, list[str]]:
    """The same, asleep again after it."""
    found = await woken(stage, *commands)
    assert await manager_of(stage).sleep(stage.owner)
    return found


async def crashed(stage: Stage) -> None:
    """The sandbox is gone without having been put to sleep."""
    manager = manager_of(stage)
    await manager._kill(manager._seats[stage.owner])


def kept(stage: Stage) -> Path:
    return stage.folder / "volumes" / str(stage.owner) / "live/home/.nightporter/session_state.json"


def refused(notes: list[str]) -> str:
    (note,) = [note for note in notes if "session_state.json was not used" in note]
    return note


def edited(data: bytes) -> bytes:
    """Still JSON, as a person would edit it; only what it says is another thing."""
    assert b'"value": "good"' in data
    return data.replace(b'"value": "good"', b'"value": "evil"')


def of_the_release_before(data: bytes) -> bytes:
    state = json.loads(edited(data))
    return json.dumps({**{key: state[key] for key in state if key != "seal"}, "version": 1}).encode()


def with_a_task(data: bytes) -> bytes:
    state = json.loads(data)
    state["tasks"] = [{"task": 1, "argv": ["touch", "/workspace/pwned"], "policy": "restart", "cwd": "/workspace"}]
    return json.dumps(state).encode()


def sealed_by_another(data: bytes) -> bytes:
    found = seal.read(edited(data))
    return seal.sealed(found.body, "00" * 32, found.life, found.number + 10)


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (edited, "changed by something other"),
        (with_a_task, "changed by something other"),
        (sealed_by_another, "changed by something other"),
        (of_the_release_before, "changed by something other"),
        (lambda data: data[:-40], "not whole"),
        (lambda data: b"", "not whole"),
        (lambda data: data + b" " * (300 << 10), "more than"),
    ],
)
async def test_a_state_edited_on_the_host(house: Stage, forge: Callable[[bytes], bytes], why: str) -> None:
    """Refused as a whole and told; terminals are as in the last generation that has an authentic one."""
    await work(house, "x=older; cd /usr", "x=good; y() { echo fn; }")
    kept(house).write_bytes(forge(kept(house).read_bytes()))
    printed, notes = await work(house, "echo $x $PWD; y; ls /workspace/pwned 2>&1")
    assert printed.startswith("good /usr\nfn\n")
    assert "No such file" in printed
    assert why in refused(notes)
    assert "as generation 1 has them" in refused(notes)
    # What was refused is gone: the next wake has nothing to tell.
    assert (await work(house, "echo $x"))[1] == []


async def test_a_state_edited_after_a_crash(house: Stage) -> None:
    await work(house, "x=good")
    await woken(house, "x=newer")
    await crashed(house)
    kept(house).write_bytes(kept(house).read_bytes().replace(b"newer", b"evil!"))
    printed, notes = await woken(house, "echo $x")
    assert printed == "good\n"
    assert refused(notes)


async def test_a_state_that_a_crash_left_newer_than_the_last_generation_is_good(house: Stage) -> None:
    await work(house, "x=old")
    for value in ("newer", "newest"):
        await woken(house, f"x={value}")
        await crashed(house)
        printed, notes = await woken(house, "echo $x")
        assert (printed, notes) == (f"{value}\n", [])
        await crashed(house)


async def test_an_older_state_put_back(house: Stage) -> None:
    """It was good once, and its seal fits."""
    await work(house, "x=first")
    first = kept(house).read_bytes()
    await work(house, "x=second")
    kept(house).write_bytes(first)
    printed, notes = await work(house, "echo $x")
    assert printed == "second\n"
    assert "an older one" in refused(notes)


async def test_what_a_crash_lost_put_back_later(house: Stage) -> None:
    """No commit has ever counted it; the numbers of the next life are beyond it all the same."""
    await work(house, "x=first")
    await woken(house, "x=lost")
    lost = kept(house).read_bytes()
    await crashed(house)
    kept(house).write_bytes(b"{}")
    await work(house, "x=third")
    kept(house).write_bytes(lost)
    printed, notes = await work(house, "echo $x")
    assert printed == "third\n"
    assert "an older one" in refused(notes)


async def test_a_state_that_a_newer_release_wrote(house: Stage) -> None:
    """Its seal is right; an older host says so and goes on from what it can read."""
    await work(house, "x=good")
    await work(house, "x=newer")
    held = await house.database.read(lambda connection: tenancies.look(connection, house.owner))
    found = seal.read(kept(house).read_bytes())
    body = found.body.replace(b'"version": 2', b'"version": 3')
    kept(house).write_bytes(seal.sealed(body, kept_state.life_key(held, found.life), found.life, found.number + 10))
    printed, notes = await work(house, "echo $x")
    assert printed == "newer\n"
    assert "a newer Nightporter wrote it (version 3; this one reads up to 2): update this host" in refused(notes)


async def test_a_state_of_the_release_before_is_gone_on_from(house: Stage) -> None:
    """As long as this release has written none: there is no seal that it could have."""
    await work(house, "x=new")
    state = {"version": 1, "next_task": 1, "tasks": [], "terminals": {"main": {"cwd": "/usr", "variables": {
        "x": {"flags": "", "value": "old"}}, "functions": {}, "aliases": {}, "traps": {}, "options": {}, "shopt": {},
        "umask": "0022", "unset": [], "history": ["x=old"], "scrollback": [], "not_kept": []}}}  # fmt: skip
    kept(house).write_text(json.dumps(state))
    unsealed = update(principal).where(principal.c.id == house.owner).values(state_high=0, state_pin=None)
    await house.database.write(lambda connection: connection.execute(unsealed))
    printed, notes = await work(house, "echo $x $PWD")
    assert (printed, notes) == ("old /usr\n", [])
    assert json.loads(kept(house).read_text())["version"] == 2


async def test_a_state_of_another_person(house: Stage) -> None:
    await work(house, "x=good")
    mine = kept(house)
    await house.hear("x", user="somebody")
    stolen = seal.read(mine.read_bytes())
    printed, _ = await work(house, "x=theirs; echo $x")
    assert printed == "theirs\n"
    kept(house).write_bytes(seal.sealed(stolen.body, "11" * 32, stolen.life, stolen.number))
    assert (await work(house, "echo $x"))[0] == "theirs\n"
    kept(house).write_bytes(mine.read_bytes())
    printed, notes = await work(house, "echo $x")
    assert printed == "theirs\n"
    assert refused(notes)


@pytest.mark.slow
async def test_a_process_inside_writes_it(house: Stage) -> None:
    """The file is its user's, so it can; the agent writes its own over it, and says so."""
    edit = 'sed -i \'s/"good"/"evil"/\' ~/.nightporter/session_state.json'
    await work(house, "x=good", f"{edit}; grep -c evil ~/.nightporter/session_state.json")
    assert await work(house, "echo $x") == ("good\n", [])
    # Also when it is the last to write, after the agent has, by outliving everything but the sandbox.
    stubborn = f"trap '' TERM INT HUP; while :; do {edit}; done"
    await work(house, f"setsid bash -c {shlex.quote(stubborn)} >/dev/null 2>&1 &", "true")
    printed, _ = await work(house, "echo $x")
    assert printed == "good\n"


async def test_the_key_of_the_seal_is_not_to_be_had_inside(house: Stage) -> None:
    look = "cat /proc/1/environ /proc/1/cmdline /proc/1/mem /proc/1/maps 2>&1; env; ls -la /proc/1/fd 2>&1; true"
    printed, _ = await work(house, look)
    held = await house.database.read(lambda connection: tenancies.look(connection, house.owner))
    life = seal.read(kept(house).read_bytes()).life
    for key in (held.state_key, kept_state.life_key(held, life)):
        assert key
        assert key not in printed
        assert key not in kept(house).read_text()
    assert "Permission denied" in printed


async def test_a_link_or_a_pipe_in_its_place(house: Stage) -> None:
    await work(house, "x=good")
    for place in (Path("/etc/shadow"), Path("/dev/zero"), os.mkfifo, os.mkdir, None):
        state = kept(house)
        state.rmdir() if state.is_dir() and not state.is_symlink() else state.unlink()
        if isinstance(place, Path):
            state.symlink_to(place)
        elif place is not None:
            place(state)
        printed, notes = await work(house, "echo $x")
        assert printed == "good\n"
        assert refused(notes)
