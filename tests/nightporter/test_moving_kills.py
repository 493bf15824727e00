"""SIGKILL between any two steps of an export or an import: a person never lives in two places, and ends up in one."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from identity.moves import MoveRefused
from identity.users import User
from nightporter import signing
from nightporter.moving.installation import Installation
from tests import processes
from tests.nightporter import moving
from workspace_store import bundles, journal
from workspace_store.bundles import BundleRefused

pytestmark = pytest.mark.slow

FILE_STEPS = ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
STEPS = 3000
"""More than there are: the last kill finds nothing left to interrupt."""


@dataclass(frozen=True)
class Stage:
    """Two houses in a folder, and a person who is to go from one to the other."""

    folder: Path
    user: User
    code: str

    @property
    def file(self) -> Path:
        return self.folder / "move.tar"

    def house(self, name: str) -> Installation:
        return moving.installation(self.folder / name, f"sqlite:///{self.folder / name}.db")

    def again(self, to: Path) -> Stage:
        """A copy to break."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.folder, to)
        return Stage(to, self.user, self.code)


def count_down(kill_at: int) -> None:
    """Die before the step of this number: a statement, a commit, or something done to a folder."""
    left = kill_at

    def die(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", die)
    event.listen(Engine, "commit", die)
    sys.addaudithook(lambda name, _: die() if name in FILE_STEPS else None)


def export(stage: Stage, kill_at: int) -> None:
    house = stage.house("old")
    if kill_at:
        count_down(kill_at)
    moving.leave(house, stage.user, stage.file, stage.code)
    house.database.close()


def bring_in(stage: Stage, kill_at: int) -> None:
    house = stage.house("new")
    if kill_at:
        count_down(kill_at)
    moving.arrive(house, stage.file)
    house.database.close()


@pytest.fixture
def stage(sqlite_template: bytes, tmp_path: Path) -> Stage:
    folder = tmp_path / "stage"
    folder.mkdir()
    for name in ("old", "new"):
        (folder / f"{name}.db").write_bytes(sqlite_template)
    old, new = (moving.installation(folder / name, f"sqlite:///{folder / name}.db") for name in ("old", "new"))
    user = moving.settle_in(old)
    code = moving.grant(old, new, user.id)
    for house in (old, new):
        house.database.close()
    return Stage(folder, user, code)


def alive(stage: Stage) -> list[str]:
    found = []
    for name in ("old", "new"):
        house = stage.house(name)
        if moving.is_alive(house, stage.user.id):
            found.append(name)
            assert moving.gold(house, stage.user.id) == moving.WORD
            assert house.database.read_now(lambda c: journal.verify(c, stage.user.id))[1] == []
        house.database.close()
    return found


def is_bundle(file: Path) -> bool:
    """Whether somebody would believe that file."""
    try:
        with file.open("rb") as opened:
            bundles.check(opened, signing.verifies, max_bytes=1 << 30)
    except (FileNotFoundError, BundleRefused):
        return False
    return True


def steps(stage: Stage, task: Callable[[Stage, int], None], folder: Path, every: int) -> list[Stage]:
    """Stages in which the task was killed before each step, or each of so many; the last is one that it finished."""
    assert processes.codes(processes.start(kill_each, stage, task, folder, every)) == [0]
    return [Stage(one, stage.user, stage.code) for one in sorted(folder.glob("step-*"))]


def kill_each(stage: Stage, task: Callable[[Stage, int], None], folder: Path, every: int) -> None:
    """In one process that has imported everything: each victim is forked from it."""
    for kill_at in range(1, STEPS, every):
        copied = stage.again(folder / f"step-{kill_at:04d}")
        victim = os.fork()
        if victim == 0:
            with contextlib.suppress(BaseException):
                task(copied, kill_at)
                os._exit(0)
            os._exit(1)
        _, status = os.waitpid(victim, 0)
        if status == 0:
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
    raise AssertionError("more steps than were thought of")


def again(task: Callable[[Stage, int], None], stage: Stage) -> None:
    """Type it again: it takes them in, or says that they have come already."""
    came = bool(alive(stage))
    with pytest.raises(MoveRefused, match="used already") if came else contextlib.nullcontext():
        task(stage, 0)


def finish(stage: Stage) -> None:
    """What whoever typed the commands does: type them again."""
    export(stage, 0)
    assert alive(stage) in ([], ["new"])
    again(bring_in, stage)
    assert alive(stage) == ["new"]
    new = stage.house("new")
    left = [name for name in moving.files_of(new.volumes, new.blobs_folder) if "/." in name]
    assert left == [], "nothing is left beside what is used"
    new.database.close()


def test_an_export_killed_anywhere(stage: Stage, tmp_path: Path) -> None:
    for broken in steps(stage, export, tmp_path, 3):
        here = alive(broken)
        assert here in ([], ["old"])
        assert not (here and is_bundle(broken.file)), "whoever lives here cannot be brought in elsewhere"
        finish(broken)


def test_an_import_killed_anywhere(stage: Stage, tmp_path: Path) -> None:
    export(stage, 0)
    for broken in steps(stage, bring_in, tmp_path, 3):
        assert alive(broken) in ([], ["new"])
        finish(broken)


def test_coming_back_killed_anywhere(stage: Stage, tmp_path: Path) -> None:
    """Where files of an earlier stay are put aside: they, or those that arrive, and never a mixture."""
    export(stage, 0)
    bring_in(stage, 0)
    old, new = stage.house("old"), stage.house("new")
    back = moving.grant(new, old, stage.user.id)
    (stage.folder / "move.tar").unlink()
    moving.leave(new, stage.user, stage.file, back)
    for house in (old, new):
        house.database.close()
    for broken in steps(stage, come_home, tmp_path, 5):
        assert alive(broken) in ([], ["old"])
        again(come_home, broken)
        assert alive(broken) == ["old"]


def come_home(stage: Stage, kill_at: int) -> None:
    house = stage.house("old")
    if kill_at:
        count_down(kill_at)
    moving.arrive(house, stage.file)
    house.database.close()
