"""Alive or dead: told from a lock that the kernel gives back, however a process ends."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

from tests import processes
from workspace_store import liveness
from workspace_store.liveness import Life


def live(directory: Path, ids: processes.Queue) -> None:  # type: ignore[valid-type]
    life = Life(directory, "runner", "host")
    ids.put(life.id)  # type: ignore[attr-defined]
    time.sleep(600)


def test_a_killed_process_is_dead_at_once_and_a_living_one_is_not(tmp_path: Path) -> None:
    ids = processes.Queue()
    first = processes.start(live, tmp_path, ids)
    one = ids.get(timeout=60)
    second = processes.start(live, tmp_path, ids)
    two = ids.get(timeout=60)
    assert liveness.alive(tmp_path, "runner") == sorted([one, two])
    processes.kill(first)
    assert liveness.is_dead(tmp_path, one)
    assert not liveness.is_dead(tmp_path, two)
    assert liveness.alive(tmp_path, "runner") == [two]
    processes.kill(second)
    assert liveness.alive(tmp_path, "runner") == []
    assert list(tmp_path.glob("*.lock")) == []


def test_one_that_never_lived_or_has_ended_is_dead(tmp_path: Path) -> None:
    assert liveness.is_dead(tmp_path, "runner-host-000000000000")
    life = Life(tmp_path, "runner", "host")
    assert not liveness.is_dead(tmp_path, life.id)
    life.end()
    assert liveness.is_dead(tmp_path, life.id)


def test_looking_does_not_take_the_life_from_the_living(tmp_path: Path) -> None:
    life = Life(tmp_path, "runner", "host")
    for _ in range(3):
        assert not liveness.is_dead(tmp_path, life.id)
        assert liveness.alive(tmp_path, "runner") == [life.id]
    life.end()


def test_a_program_started_by_a_process_does_not_keep_it_alive(tmp_path: Path) -> None:
    life = Life(tmp_path, "gateway", "host")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        life.end()
        assert liveness.is_dead(tmp_path, life.id)
        child.communicate(b"\n")


def test_a_life_is_never_seen_under_its_name_without_its_lock(tmp_path: Path) -> None:
    """Whoever looks between the file's creation and its lock would take a living process for dead."""
    seen: list[bool] = []
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        real(source, target)
        with target.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                seen.append(True)

    os.rename = rename  # type: ignore[assignment]
    try:
        life = Life(tmp_path, "runner", "host")
    finally:
        os.rename = real
    assert seen == [True]
    life.end()


def test_roles_are_told_apart(tmp_path: Path) -> None:
    runner, manager = Life(tmp_path, "runner", "host"), Life(tmp_path, "sandbox-manager", "host")
    assert liveness.alive(tmp_path, "runner") == [runner.id]
    assert liveness.alive(tmp_path, "sandbox-manager") == [manager.id]
    runner.end()
    manager.end()
