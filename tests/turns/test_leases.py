"""Whoever has slept through the end of its right writes nothing when it comes back: runners and sandbox managers.

Over one PostgreSQL, from hosts with different homes, so that only the lease's end by the database's clock tells who
lives; and with clocks that are five minutes apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text

from agent.engine import Step
from agent.sandbox import SandboxLimits
from agent.trajectory import Context
from router.runner import Runner
from sandbox_runner import bubblewrap_binary, keeper, waking
from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.guest_connection import GUEST_FOLDER
from sandbox_runner.manager import Manager
from sandbox_runner.seat_files import SeatFiles
from sandbox_runner.seats import Seating
from sandbox_runner.uids import HostUids
from tests import processes
from tests.turns.stage import Scripted, Stage, answer, shell
from workspace_store import blobs, crash_points, liveness, principal, tenancy, unserved
from workspace_store import database as database_module
from workspace_store.crash_points import Point
from workspace_store.database import Database
from workspace_store.liveness import Life
from workspace_store.tenancy import StaleTenancy
from workspace_store.volume_rights import VolumeTaken
from workspace_store.volumes import Volumes

SKEW_US = 300_000_000


def results(context: Context) -> list[str]:
    return [said.text for said in context.turn if said.role == "tool"]


async def much_output(context: Context) -> Step:
    return answer(context, "from the paused one") if results(context) else shell(1, "echo line >> log; seq 20000")


async def other(context: Context) -> Step:
    return answer(context, "from the other one")


def pausing(url: str, folder: Path, owner: UUID, point: Point) -> None:
    """A runner of a host of its own that is stopped at a point, and served nothing else."""
    principal.LEASE_SECONDS = tenancy.LEASE_SECONDS = 1

    def stop(reached: Point) -> None:
        if reached is point:
            crash_points.watcher = None
            os.kill(os.getpid(), signal.SIGSTOP)

    async def serve() -> None:
        stage = Stage(folder, url, owner=owner, host="slow", volumes=folder.parent / "volumes")
        async with stage.managing():
            crash_points.watcher = stop
            await stage.serve(Scripted(much_output))
        stage.database.close()

    asyncio.run(serve())


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


async def until(condition: object, what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("point", [Point.MODEL_ANSWERED, Point.TOOL_RAN, Point.TURN_ANSWERED, Point.TURN_SAVED])
async def test_a_paused_runner_that_comes_back_writes_nothing(
    tmp_path: Path, postgresql_url: str, point: Point
) -> None:
    (tmp_path / "quick").mkdir()
    (tmp_path / "slow").mkdir()
    stage = Stage(tmp_path / "quick", postgresql_url, host="quick", volumes=tmp_path / "volumes")
    message = await stage.hear("go")
    process = processes.start(pausing, postgresql_url, tmp_path / "slow", stage.owner, point)
    assert process.pid is not None
    await until(lambda: is_stopped(process.pid or 0), "the runner is stopped")
    await until(lambda: stage.database.read_now(lambda c: tenancy.look(c, stage.owner)).expired, "its right has ended")
    async with stage.managing(), stage.running(Scripted(other)) as runner, asyncio.timeout(30):
        while await stage.status(message) != "done":
            await runner.serve(stage.owner)
            await asyncio.sleep(0.1)
    before = [(event.seq, event.kind) for event in await stage.events()]
    kept = sorted(path for path in (tmp_path / "slow" / "blobs").rglob("*") if path.is_file())
    os.kill(process.pid, signal.SIGCONT)
    assert processes.codes(process) == [0]
    after = [(event.seq, event.kind) for event in await stage.events()]
    # Where nobody wanted its sandbox meanwhile, its manager has the right to put it to sleep.
    may = ["sandbox.slept"] if point is Point.MODEL_ANSWERED else []
    assert [kind for _, kind in after[len(before) :] if kind not in may] == []
    (reply,) = await stage.replies(message)
    # What it recorded before it slept is used again, what it had in mind is not.
    assert reply.startswith("from the paused one" if point in (Point.TURN_ANSWERED, Point.TURN_SAVED) else "from the")
    assert reply.count("from the") == 1
    assert sorted(path for path in (tmp_path / "slow" / "blobs").rglob("*") if path.is_file()) == kept
    assert await stage.verified()
    stage.database.close()


@contextlib.contextmanager
def hosting(stage: Stage, host: str) -> Iterator[Manager]:
    """The sandbox manager of a host with a home of its own, on storage that all hosts share."""
    folder = stage.folder / host
    (folder / "run").mkdir(parents=True)
    life = Life(folder / "lives", "sandbox-manager", host)
    uids = HostUids.of(stage.folder)
    seating = Seating(life.id, stage.database, Volumes(stage.folder / "volumes"), folder / "lives", uids)
    backend = BubblewrapBackend(folder / "run", host_uids=uids)
    files = SeatFiles(blobs.DirectoryBlobs(folder / "blobs"))
    yield Manager(seating, backend, GUEST_FOLDER, SandboxLimits(), 300, lambda _: None, files)
    life.end()


@pytest.fixture
async def shared(tmp_path: Path, postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr(tenancy, "LEASE_SECONDS", 1)
    stage = Stage(tmp_path, postgresql_url)
    await stage.hear("x")
    yield stage
    stage.database.close()


async def run(manager: Manager, owner: UUID, command: str) -> str:
    result = await manager.run(
        owner, call_id=f"{time.monotonic_ns()}", command=command, terminal="main", timeout=20, background=False,
        on_output=lambda _: None,
    )  # fmt: skip
    return result.output.strip()


@pytest.mark.slow
async def test_a_paused_manager_that_comes_back_publishes_nothing_and_kills_its_sandbox(shared: Stage) -> None:
    owner, here = shared.owner, object()
    with hosting(shared, "slow") as slow, hosting(shared, "quick") as quick:
        await slow.wake(owner, here)
        await run(slow, owner, "echo slow >> /workspace/log")
        running = slow._seats[owner].awake
        volume = slow._seats[owner].volume
        assert running is not None
        # It is paused: nothing renews. The other one takes over once the right has ended, and not before.
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(Exception):
                    await quick.wake(owner, here)
                    break
                await asyncio.sleep(0.1)
        await run(quick, owner, "echo quick >> /workspace/log")
        published = await quick.snapshot(owner, here, UUID(int=1), "quick")
        there = {path: path.stat().st_mtime_ns for path in volume.path.joinpath("snapshots").rglob("*")}
        # It comes back. What it believes is checked by the database, and by the volume itself.
        with pytest.raises(VolumeTaken):
            volume.snapshot(0)
        with pytest.raises(VolumeTaken):
            volume.put_file("workspace", "late", b"late")
        with pytest.raises(StaleTenancy):
            await slow.snapshot(owner, here, UUID(int=2), "slow")
        assert running.ended.done() or await asyncio.wait_for(running.ended, 10)
        assert slow.awake() == []
        assert {path: path.stat().st_mtime_ns for path in volume.path.joinpath("snapshots").rglob("*")} == there | {
            path: path.stat().st_mtime_ns for path in there if path.name == "lock"
        }
        assert volume.marker().generation == published.generation
        await quick.close(5)
        await slow.close(5)


@pytest.mark.slow
async def test_a_manager_that_only_looks_on_kills_what_is_no_longer_its_own(
    shared: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_runner.keeper.RENEW_SECONDS", 0.1)
    owner, here = shared.owner, object()
    with hosting(shared, "slow") as slow, hosting(shared, "quick") as quick:
        await slow.wake(owner, here)
        await asyncio.sleep(1.2)
        await quick.wake(owner, here)
        keeping = asyncio.create_task(slow.keep())
        await until(lambda: slow.awake() == [], "the sandbox is killed")
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        assert "well" in await run(quick, owner, "echo well")
        await quick.close(5)
        await slow.close(5)


def busy_and_paused(url: str, folder: Path, owner: UUID) -> None:
    """A sandbox manager that is stopped while something in its sandbox writes, and nobody there can end it."""
    tenancy.LEASE_SECONDS = keeper.LEASE_SECONDS = waking.LEASE_SECONDS = 4

    async def manage() -> None:
        stage = Stage(folder, url, owner=owner, host="slow", volumes=folder.parent / "volumes")
        async with stage.managing() as manager:
            keeping = asyncio.create_task(manager.keep())
            await manager.wake(owner, object())
            await run(manager, owner, "nohup sh -c 'while :; do echo tick >> /workspace/ticks; sleep 0.02; done' &")
            await asyncio.sleep(2 * keeper.RENEW_SECONDS)
            os.kill(os.getpid(), signal.SIGSTOP)
            await until(lambda: manager.awake() == [], "it has seen that its sandbox has ended")
            keeping.cancel()

    keeper.RENEW_SECONDS = 0.5
    asyncio.run(manage())


@pytest.mark.slow
async def test_the_sandbox_of_a_paused_manager_ends_by_itself_before_its_right_has(
    tmp_path: Path, postgresql_url: str
) -> None:
    (tmp_path / "slow").mkdir()
    stage = Stage(tmp_path, postgresql_url)
    await stage.hear("x")
    process = processes.start(busy_and_paused, postgresql_url, tmp_path / "slow", stage.owner)
    ticks = tmp_path / "volumes" / str(stage.owner) / "live" / "workspace" / "ticks"
    await until(lambda: is_stopped(process.pid or 0), "the manager is stopped")
    written = ticks.stat().st_size
    await until(lambda: ticks.stat().st_size > written, "its sandbox goes on without it")
    await until(lambda: stage.database.read_now(lambda c: tenancy.look(c, stage.owner)).expired, "its right has ended")
    written, last = ticks.stat().st_size, ticks.stat().st_mtime
    await asyncio.sleep(0.3)
    assert ticks.stat().st_size == written, "nothing writes where another may write now"
    assert time.time() - last > 1, "with a margin"
    os.kill(process.pid or 0, signal.SIGCONT)
    assert processes.codes(process) == [0]
    stage.database.close()


@contextlib.contextmanager
def clock_off_by(seconds: float) -> Iterator[None]:
    """This process's clock is that of a host whose clock is wrong; the database's stays as it is."""
    right = time.time_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_module.time, "time_ns", lambda: right() + int(seconds * 1e9))
        patch.setattr(database_module.time, "time", lambda: right() / 1e9 + seconds)
        yield


@pytest.fixture
def no_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none, and none is waited for."""
    monkeypatch.setattr("sandbox_runner.sandboxes.RECONNECT_SECONDS", 0.1)


@pytest.mark.usefixtures("no_manager")
@pytest.mark.parametrize("minutes", [-5, 5])
async def test_a_clock_that_is_five_minutes_wrong_takes_no_lease_and_loses_no_bell(
    tmp_path: Path, postgresql_url: str, minutes: int
) -> None:
    stage = Stage(tmp_path, postgresql_url)
    away = Life(tmp_path / "away", "runner", "wrong").id
    with clock_off_by(60 * minutes):
        message = await stage.hear("go")
        taken = await stage.database.write(lambda c: principal.take(c, stage.owner, away, found(c, stage.owner)))
        held = await stage.database.write(lambda c: tenancy.take(c, stage.owner, away, tenancy.look(c, stage.owner)))
    assert taken is not None
    assert held is not None
    # Whoever's clock is right sees a lease that runs, and so does the one whose clock is wrong.
    for off in (0, 60 * minutes, -60 * minutes):
        with clock_off_by(off):
            assert not (await stage.database.read(lambda c: found(c, stage.owner))).expired
            assert not (await stage.database.read(lambda c: tenancy.look(c, stage.owner))).expired
            async with stage.running(Scripted(other)) as runner:
                await runner.serve(stage.owner)
    assert await stage.status(message) == "pending"
    await stage.database.write(lambda c: principal.abandon(c, taken))
    # A bell that was rung by a wrong clock is rung again after two seconds, not after five minutes.
    with clock_off_by(60 * minutes):
        await stage.database.write(lambda c: unserved.rung(c, [stage.owner]))
    later = await stage.database.read(lambda c: database_module.database_now_us(c) + 2_000_000)
    assert stage.owner in await stage.database.read(lambda c: unserved.with_mail(c, later))
    await stage.serve(Scripted(other))
    assert await stage.status(message) == "done"
    stage.database.close()


CONTAINED = """
import os, sys
from pathlib import Path
from uuid import UUID
from workspace_store import liveness, principal
from workspace_store.database import Database

lives, url, owner = Path(sys.argv[1]), sys.argv[2], UUID(sys.argv[3])
life = liveness.Life(lives, "runner", "here")
print(os.getpid(), life.id, flush=True)
for line in sys.stdin:
    other = line.strip()
    if other:
        print(liveness.is_dead(lives, other), flush=True)
    else:
        database = Database(url)
        database.write_now(lambda c: principal.take(c, owner, life.id, principal.look(c, owner)))
        print("taken", flush=True)
"""


@contextlib.contextmanager
def container(stage: Stage) -> Iterator[subprocess.Popen[str]]:
    """A process with process ids of its own and the same home: where a runner in a container is."""
    binary, reason = bubblewrap_binary.find()
    if binary is None:
        pytest.skip(reason)
    namespaces = ["--unshare-pid", "--unshare-uts", "--unshare-ipc", "--die-with-parent"]
    command = [
        str(binary.path),
        *namespaces,
        "--dev-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        sys.executable,
        "-c",
        CONTAINED,
    ]
    given = [str(stage.lives), stage.url, str(stage.owner)]
    with subprocess.Popen([*command, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def ask(process: subprocess.Popen[str], line: str) -> str:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return heard(process)


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.usefixtures("no_manager")
async def test_runners_in_containers_that_share_a_home_know_each_other_by_lock(tmp_path: Path, sqlite_url: str) -> None:
    stage = Stage(tmp_path, sqlite_url)
    message = await stage.hear("go")
    with container(stage) as first, container(stage) as second:
        (pid, one), (same, two) = heard(first).split(), heard(second).split()
        assert pid == same, "a process id tells nothing between them"
        assert ask(first, two) == ask(second, one) == "False"
        assert ask(first, "") == "taken"
        await stage.serve(Scripted(other))
        assert await stage.status(message) == "pending", "who has the lease lives"
        first.kill()
        first.wait(10)
        async with asyncio.timeout(10):
            while ask(second, one) != "True":
                await asyncio.sleep(0.01)
        await stage.serve(Scripted(other))
    assert await stage.status(message) == "done"
    stage.database.close()


def test_of_another_home_only_the_end_of_its_right_tells(tmp_path: Path) -> None:
    here, there = Life(tmp_path / "here", "runner", "a"), Life(tmp_path / "there", "runner", "a")
    assert not liveness.is_dead(tmp_path / "here", there.id)
    there.end()
    assert not liveness.is_dead(tmp_path / "here", there.id), "its lock is not seen from here"
    assert liveness.is_dead(tmp_path / "here", there.id, expired=True)
    assert not liveness.is_dead(tmp_path / "here", here.id, expired=True), "a lock that is held says more than a clock"
    here.end()


@pytest.mark.usefixtures("no_manager")
@pytest.mark.parametrize("minutes", [-5, 5])
async def test_what_settles_is_served_by_the_database_s_clock(
    tmp_path: Path, postgresql_url: str, minutes: int
) -> None:
    """The gateway's clock is wrong, the runner's right: a message that waits for more of it waits a moment."""
    stage = Stage(tmp_path, postgresql_url)
    with clock_off_by(60 * minutes):
        message = await stage.hear("a first part", more=True)
    async with asyncio.timeout(20), stage.running(Scripted(other)) as runner:
        served: list[Runner] = []
        runner.again = lambda owner: served.append(runner) or True  # type: ignore[func-returns-value]
        await runner.serve(stage.owner)
        if await stage.status(message) != "done":
            await until(lambda: served, "it is served again when it has settled")
            await runner.serve(stage.owner)
    assert await stage.status(message) == "done"
    stage.database.close()


def found(connection: object, owner: UUID) -> principal.Owner:
    seen = principal.look(connection, owner)  # type: ignore[arg-type]
    assert seen is not None
    return seen


# The lost wake-up


def looks_then_releases(connection: object, held: principal.Lease) -> bool:
    """What must not be done: the inbox is looked at in one statement, and the lease given back in the next."""
    waits = "SELECT count(*) FROM inbox WHERE status = 'pending' AND principal = :of"
    if connection.execute(text(waits), {"of": held.principal}).scalar():  # type: ignore[attr-defined]
        return False
    principal.abandon(connection, held)  # type: ignore[arg-type]
    return True


def as_it_is(connection: object, held: principal.Lease) -> bool:
    return principal.release(connection, held)  # type: ignore[arg-type]


@pytest.mark.parametrize(("release", "is_lost"), [(as_it_is, False), (looks_then_releases, True)])
def test_a_wake_up_between_the_last_look_and_the_release(postgresql_url: str, release: object, is_lost: bool) -> None:
    """An intake is not committed yet when the runner looks whether anything is left: with a SELECT its message is lost.

    Nobody rings, since the intake saw an owner; and the owner let go, since it saw no message.
    """
    from concurrent.futures import ThreadPoolExecutor

    from tests.router.test_runner import say
    from tests.workspace_store.people import lease, person

    runner, gateway = Database(postgresql_url), Database(postgresql_url)
    owner = person(runner)
    held = lease(runner, owner)
    saw: list[str | None] = []
    with ThreadPoolExecutor(1) as pool:

        def intake(connection: object) -> object:
            seen = principal.look(connection, owner)  # type: ignore[arg-type]
            say(connection, owner, "hello")  # type: ignore[arg-type]
            saw.append(seen.owner if seen else None)
            releasing = pool.submit(runner.write_now, lambda c: release(c, held))  # type: ignore[operator]
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while not releasing.done() and not runner.read_now(lambda c: c.exec_driver_sql(waits).scalar()):
                time.sleep(0.005)
            return releasing

        released = gateway.write_now(intake).result(30)  # type: ignore[attr-defined]
    free = runner.read_now(lambda c: found(c, owner)).owner is None
    lost = released and free and saw == [held.owner]
    assert lost is is_lost
    runner.close()
    gateway.close()
