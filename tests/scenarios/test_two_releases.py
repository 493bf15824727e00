"""Hosts of two releases beside each other, as in a rolling upgrade: the older one's code is a checkout of the last
release, or of the last commit that had an older schema; it shares one PostgreSQL and one Redis with this one."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from nightporter.testing import House
from tests.warm_house import WarmHouse
from workspace_store import schema

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
USERS = 20
ROUNDS = 5


def git(*words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def before() -> str:
    """The commit of the release before this one: the last tag, or whatever had the schema before."""
    if tags := git("tag", "--merged", "HEAD~1", "--sort=-creatordate", "--list", "v*").split():
        return tags[0]
    changed = git("log", "-1", "--format=%H", "-G^HEAD = ", "--", "workspace_store/schema.py")
    return git("rev-parse", f"{changed}~1")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The code of the release before."""
    folder = tmp_path_factory.mktemp("release") / "before"
    try:
        git("worktree", "add", "--detach", "--force", str(folder), before())
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"the release before is to be had from a git checkout with its history only ({error})")
    yield folder
    git("worktree", "remove", "--force", str(folder))


class OlderHouse(House):
    """A house that runs another checkout's code."""

    code = Path()

    def launch(self, *arguments: str, stderr: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "nightporter", *arguments], cwd=self.code, text=True,
            env={**self.environment, "PYTHONPATH": str(self.code)}, stdout=subprocess.PIPE, stderr=stderr,
        )  # fmt: skip


@pytest.fixture
def shared(tmp_path: Path, servers: dict[str, str]) -> dict[str, str]:
    return {**servers, "volumes_url": f"file://{tmp_path}/volumes", "access__policy": "open"}


def schema_of(url: str) -> str:
    """By itself: the older code is asked nothing."""
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql")) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert row is not None
    return str(row[0])


def test_a_hundred_messages_between_two_releases(tmp_path: Path, older: Path, shared: dict[str, str]) -> None:
    old = OlderHouse(tmp_path / "old", runner__host="old", **shared)
    old.code = older
    old.start()
    was = schema_of(shared["database_url"])
    users = [f"user{number}" for number in range(USERS)]
    old.say("$ echo begun > trace")
    # The newer one comes, and migrates while the older one serves.
    asked = {old.post(f"before {user}", user=user): user for user in users}
    new = WarmHouse(tmp_path / "new", runner__host="new", **shared).start()
    assert was < schema_of(shared["database_url"]) == schema.HEAD
    for number in range(1, ROUNDS):
        for position, user in enumerate(users):
            # Each comes in by either, whoever serves it.
            door = (old, new)[(position + number) % 2]
            asked[door.post(f"message {number} of {user}", user=user)] = user
    assert len(asked) == USERS * ROUNDS
    replies = {}
    for message, user in asked.items():
        found = new.answer(message, user)
        assert found["status"] == "done", found
        replies[message] = found["replies"]
    assert {len(said) for said in replies.values()} == {1}, "none lost, none doubled"
    # Each was a turn once.
    for user in users:
        events = list(new.events(user=user))
        turns = Counter(event["message"] for event in events if event["kind"] == "turn.started")
        assert sorted(turns.values()) == [1] * ROUNDS, user
    assert "trace" in new.say("$ ls")
    # The older one leaves for good.
    assert old.stop() == 0, old.log()[-4000:]
    assert new.run("journal", "verify").returncode == 0
    assert "begun" in new.say("$ cat trace")
    assert new.stop() == 0, new.log()[-4000:]
