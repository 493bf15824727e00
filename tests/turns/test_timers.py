"""A crontab inside a sandbox: its lines run when they are due, once, and the sandbox is woken for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from sandbox_runner import timers as running
from sandbox_runner.manager import Manager
from tests.turns.stage import Stage
from workspace_store import inbox, timers
from workspace_store.database import database_now_us
from workspace_store.timers import Timer

MINUTE = 60_000_000


class Sandbox:
    def __init__(self, stage: Stage, manager: Manager) -> None:
        self.stage = stage
        self.manager = manager
        self.rung: asyncio.Queue[UUID] = asyncio.Queue()
        manager.ring = self.rung.put_nowait

    @property
    def workspace(self) -> Path:
        return self.stage.folder / "volumes" / str(self.stage.owner) / "live/workspace"

    async def run(self, command: str) -> tuple[str, tuple[str, ...]]:
        await self.manager.wake(self.stage.owner, "a turn")
        result = await self.manager.run(
            self.stage.owner, call_id=uuid4().hex, command=command, terminal="main", timeout=30, background=False,
            on_output=lambda _: None,
        )  # fmt: skip
        await self.manager.give_back(self.stage.owner, "a turn")
        return result.output, result.notes

    async def timers(self, count: int) -> list[Timer]:
        """Once the host knows that many."""
        async with asyncio.timeout(20):
            while True:
                found = await self.stage.database.read(lambda c: timers.of(c, self.stage.owner))
                if len(found) == count:
                    return found
                await asyncio.sleep(0.02)

    async def come_due(self, ago: int = 1_000_000) -> None:
        """As if it was that late already."""

        def earlier(connection: object) -> None:
            due = database_now_us(connection) - ago  # type: ignore[arg-type]
            connection.execute(timers.timer.update().values(next_due=due // MINUTE * MINUTE))  # type: ignore[attr-defined]

        await self.stage.database.write(earlier)

    async def line_count(self, name: str, wanted: int) -> None:
        async with asyncio.timeout(20):
            while len(self.lines(name)) < wanted:
                await asyncio.sleep(0.02)

    def lines(self, name: str) -> list[str]:
        path = self.workspace / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
async def sandbox(stage: Stage) -> Sandbox:
    await stage.hear("x")
    assert stage.manager is not None
    return Sandbox(stage, stage.manager)


async def test_a_crontab_is_written_shown_and_kept(sandbox: Sandbox) -> None:
    await sandbox.run("printf '# mine\\n*/5 * * * * true\\n@daily echo daily\\n' | crontab -")
    five, daily = await sandbox.timers(2)
    assert (five.line.when.spec, five.line.command) == ("*/5 * * * *", "true")
    assert daily.line.command == "echo daily"
    assert (await sandbox.run("crontab -l"))[0] == "# mine\n*/5 * * * * true\n@daily echo daily\n"
    assert await sandbox.manager.sleep(sandbox.stage.owner)
    # What was kept comes back, in a new sandbox too where the file is gone.
    (sandbox.workspace.parent / "home/.nightporter/crontab").unlink()
    assert (await sandbox.run("crontab -l"))[0] == "# mine\n*/5 * * * * true\n@daily echo daily\n"
    # One line is kept with its time, the other goes.
    await sandbox.run("crontab -l | grep -v daily | crontab -")
    assert [timer.id for timer in await sandbox.timers(1)] == [five.id]
    await sandbox.run("EDITOR='sed -i s/true/false/' crontab -e")
    async with asyncio.timeout(20):
        while (await sandbox.timers(1))[0].line.command != "false":
            await asyncio.sleep(0.02)
    await sandbox.run("crontab -r")
    await sandbox.timers(0)


async def test_what_will_not_run_is_told(sandbox: Sandbox) -> None:
    lines = ["CRON_TZ=Europe/Berlin", "61 * * * * x", "@reboot x", "5 5 * * *", "5 5 * * * date +%F"]
    await sandbox.run(f"crontab - <<'EOF'\n{chr(10).join(lines)}\nEOF")
    notes: tuple[str, ...] = ()
    async with asyncio.timeout(20):
        while len(notes) < 4:
            notes += (await sandbox.run("true"))[1]
    for number in (2, 3, 4, 5):
        assert any(f"line {number}, will not run" in note for note in notes), notes
    assert await sandbox.timers(0) == []


async def test_a_sandbox_that_sleeps_is_woken_once_for_what_is_due(sandbox: Sandbox) -> None:
    await sandbox.run("printf 'GREETING=\"hi there\"\\n0 7 * * * echo $GREETING $PWD >> /workspace/ran\\n' | crontab -")
    await sandbox.timers(1)
    assert await sandbox.manager.sleep(sandbox.stage.owner)
    await sandbox.come_due()
    # Two at once, and once more: as many hosts, and a restart, would.
    await asyncio.gather(*[sandbox.manager.timers.run_due() for _ in range(3)])
    await sandbox.line_count("ran", 1)
    await sandbox.manager.timers.run_due()
    assert sandbox.lines("ran") == ["hi there /home/porter"]
    (timer,) = await sandbox.timers(1)
    assert timer.next_due > await sandbox.stage.database.read(database_now_us)
    # It went well and said nothing: nobody is told.
    async with asyncio.timeout(20):
        while not await sandbox.stage.events("task.ended"):
            await asyncio.sleep(0.02)
    assert [row for row in await _rows(sandbox) if row.kind == "task"] == []
    async with asyncio.timeout(20):
        while not await sandbox.manager.sleep(sandbox.stage.owner):
            await asyncio.sleep(0.02)


async def test_what_was_missed_runs_once_and_is_told(sandbox: Sandbox) -> None:
    await sandbox.run("echo '* * * * * echo x >> /workspace/ran' | crontab -")
    await sandbox.timers(1)
    assert await sandbox.manager.sleep(sandbox.stage.owner)
    await sandbox.come_due(10 * MINUTE)
    await sandbox.manager.timers.run_due()
    await sandbox.line_count("ran", 1)
    _, notes = await sandbox.run("true")
    (note,) = [note for note in notes if "was missed" in note]
    assert "echo x" in note
    assert "10 times" in note or "9 times" in note
    assert len(sandbox.lines("ran")) == 1


async def test_what_a_timer_prints_is_told_where_its_person_was_heard(sandbox: Sandbox) -> None:
    await sandbox.run("echo '0 3 * * * echo the disk is full; exit 3' | crontab -")
    await sandbox.timers(1)
    await sandbox.come_due()
    await sandbox.manager.timers.run_due()
    async with asyncio.timeout(20):
        assert await sandbox.rung.get() == sandbox.stage.owner
    (row,) = [row for row in await _rows(sandbox) if row.kind == "task"]
    assert "the disk is full" in row.envelope
    assert "exit code 3" in row.envelope


async def test_one_that_still_runs_is_not_started_beside_itself(sandbox: Sandbox) -> None:
    await sandbox.run("echo '* * * * * echo x >> /workspace/ran; sleep 60' | crontab -")
    await sandbox.timers(1)
    for _ in range(2):
        await sandbox.come_due()
        await sandbox.manager.timers.run_due()
        await sandbox.line_count("ran", 1)
        await asyncio.gather(*sandbox.manager.timers._running)
    assert len(sandbox.lines("ran")) == 1
    assert await sandbox.manager.sleep(sandbox.stage.owner)
    report, _ = await sandbox.manager.wake(sandbox.stage.owner, "a turn")
    assert any("cut short by sleep" in note for note in report.notes)


async def test_a_sandbox_that_cannot_be_woken_now_is_woken_later(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sandbox.run("echo '0 7 * * * echo x >> /workspace/ran' | crontab -")
    (before,) = await sandbox.timers(1)
    assert await sandbox.manager.sleep(sandbox.stage.owner)
    marker = sandbox.workspace.parents[1] / "marker.json"
    marker.rename(marker.with_suffix(".away"))
    await sandbox.come_due()
    await sandbox.manager.timers.run_due()
    await asyncio.gather(*sandbox.manager.timers._running)
    (after,) = await sandbox.timers(1)
    now = await sandbox.stage.database.read(database_now_us)
    assert now < after.next_due <= now + 31_000_000 < before.next_due
    marker.with_suffix(".away").rename(marker)
    # Found by the manager itself.
    monkeypatch.setattr(running, "LOOK_SECONDS", 0.05)
    await sandbox.come_due()
    keeping = asyncio.create_task(sandbox.manager.keep())
    await sandbox.line_count("ran", 1)
    keeping.cancel()


async def _rows(sandbox: Sandbox) -> list[inbox.Row]:
    return await sandbox.stage.database.read(lambda c: list(inbox.newest(c, sandbox.stage.owner)))
