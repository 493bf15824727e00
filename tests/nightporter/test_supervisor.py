"""The supervisor, with real processes: what dies is started again, and what is stopped leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path

import pytest

from router.redis import redis_client
from tests.nightporter.houses import command_line, exists, house, wait_until

NAMES = {"gateway", "runner", "sandbox-manager", "valkey"}


def test_every_process_says_what_it_is(tmp_path: Path) -> None:
    with house(tmp_path / "home") as running:
        assert set(running.children()) == NAMES
        assert command_line(running.process.pid).startswith("nightporter: up")
        assert running.get() == running.children()["gateway"]


def test_the_home_is_private(tmp_path: Path) -> None:
    with house(tmp_path / "home"):
        modes = {p: (tmp_path / "home" / p).stat().st_mode & 0o777 for p in (".", "run", "valkey", "token")}
        assert modes == {".": 0o700, "run": 0o700, "valkey": 0o700, "token": 0o600}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_what_is_killed_is_started_again(tmp_path: Path, name: str) -> None:
    with house(tmp_path / "home") as running:
        killed = running.children()[name]
        os.kill(killed, signal.SIGKILL)
        running.wait_for_child(name, killed)
        assert set(running.children()) == NAMES
        assert running.process.poll() is None


def test_what_dies_at_each_start_is_started_again_ever_more_slowly(tmp_path: Path) -> None:
    with house(tmp_path / "home") as running:
        waits = []
        for _ in range(3):
            killed = running.children()["runner"]
            began = time.monotonic()
            os.kill(killed, signal.SIGKILL)
            running.wait_for_child("runner", killed)
            waits.append(time.monotonic() - began)
        assert waits[0] < 0.15
        assert waits[1] >= 0.2
        assert waits[2] >= 0.5


def test_who_connects_while_the_gateway_is_down_waits_and_is_served(tmp_path: Path) -> None:
    with house(tmp_path / "home") as running:
        for _ in range(2):
            killed = running.children()["gateway"]
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda pid=killed: not exists(pid), 1, "it is gone")  # type: ignore[misc]
            assert running.get() != killed


def test_valkey_killed_loses_nothing_that_was_written(tmp_path: Path) -> None:
    with house(tmp_path / "home") as running:
        killed = running.children()["valkey"]
        wait_until(lambda: _beats(tmp_path / "home") > 10, 3, "the runner writes")
        before = _beats(tmp_path / "home")
        os.kill(killed, signal.SIGKILL)
        running.wait_for_child("valkey", killed)
        wait_until(lambda: _beats(tmp_path / "home") > before, 3, "the runner goes on where it was")


@pytest.mark.slow
def test_a_corrupt_append_only_file_is_moved_aside(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with house(home) as running:
        wait_until(lambda: _beats(home) > 3, 3, "the runner writes")
        assert running.terminate()[0] == 0
    (file,) = (home / "valkey/appendonlydir").glob("*.incr.aof")
    file.write_bytes(b"nonsense" + file.read_bytes())
    with house(home) as running:
        assert (home / "valkey/appendonlydir.corrupt").is_dir()
        wait_until(lambda: _beats(home) > 0, 3, "Valkey is there again")


@pytest.mark.parametrize("wish", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_asked_to_stop_it_leaves_nothing_behind(tmp_path: Path, wish: signal.Signals) -> None:
    with house(tmp_path / "home") as running:
        children = running.children().values()
        began = time.monotonic()
        running.process.send_signal(wish)
        assert running.process.wait(5) == 0
        assert time.monotonic() - began < 2
        assert not any(exists(pid) for pid in children)


@pytest.mark.slow
def test_who_does_not_stop_is_killed_within_five_seconds(tmp_path: Path) -> None:
    with house(tmp_path / "home", STANDIN="stubborn") as running:
        children = running.children().values()
        code, seconds = running.terminate()
        assert code == 0
        assert 2 < seconds < 5
        assert not any(exists(pid) for pid in children)


def test_asked_twice_it_stops_at_once(tmp_path: Path) -> None:
    with house(tmp_path / "home", STANDIN="stubborn") as running:
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert running.terminate()[1] < 1


def test_killed_it_leaves_nothing_behind(tmp_path: Path) -> None:
    with house(tmp_path / "home", STANDIN="stubborn") as running:
        children = running.children().values()
        running.process.kill()
        running.process.wait()
        wait_until(lambda: not any(exists(pid) for pid in children), 1, "all children gone")


def test_up_starts_again_after_it_was_killed(tmp_path: Path) -> None:
    with house(tmp_path / "home") as running:
        running.process.kill()
    with house(tmp_path / "home") as running:
        assert set(running.children()) == NAMES


def test_a_second_up_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with house(tmp_path / "home") as running, house(tmp_path / "home", until_ready=False) as second:
        _, said = second.process.communicate(timeout=30)
        assert second.process.returncode == 2
        assert f"already up in {tmp_path}/home as process {running.process.pid}; stop it first" in said
        assert said.count("\n") == 1


@pytest.mark.parametrize("setting", ["http.listen", "email.listen"])
def test_a_port_in_use_is_one_sentence(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        variable = f"NIGHTPORTER_{setting.replace('.', '__').upper()}"
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with house(tmp_path / "home", until_ready=False, **{variable: address}) as refused:
            _, said = refused.process.communicate(timeout=30)
    assert refused.process.returncode == 2
    assert said.startswith(f"Port {address.partition(':')[2]} of 127.0.0.1 is in use by another program;")
    assert f"set {setting} to another port, for example: {variable}=" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("standin", "said"),
    [
        ("misconfigured", "The runner cannot run here; buy another machine."),
        ("unprepared", "The database could not be prepared (OSError: the disk is full); correct database_url"),
    ],
)
def test_what_cannot_work_as_set_ends_everything_with_its_sentence(tmp_path: Path, standin: str, said: str) -> None:
    with house(tmp_path / "home", until_ready=False, STANDIN=standin) as refused:
        _, errors = refused.process.communicate(timeout=30)
        assert refused.process.returncode == 2
        assert said in errors
        assert "Traceback" not in errors


def test_who_is_late_is_named(tmp_path: Path) -> None:
    with house(tmp_path / "home", until_ready=False, STANDIN="late") as waiting:
        assert waiting.process.stderr is not None
        assert waiting.process.stderr.readline().startswith("Still waiting for runner; ")


def test_a_home_with_a_long_path(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30) / ("longer" * 20)
    with house(home) as running:
        wait_until(lambda: _beats(home) > 3, 3, "the runner reaches Valkey")
        assert running.terminate()[0] == 0


def test_one_service_alone_says_that_redis_is_missing_and_goes_on(tmp_path: Path) -> None:
    with house(tmp_path / "home", "part") as running:
        assert set(running.children()) == {"gateway"}
        running.terminate()
        assert "no embedded Valkey answers" in running.process.communicate()[1]


def test_one_service_alone_runs_beside_up(tmp_path: Path) -> None:
    with house(tmp_path / "home"), house(tmp_path / "home", "part") as second:
        assert set(second.children()) == {"gateway"}


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
def test_as_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory(prefix="nightporter-", dir="/tmp") as folder:
        os.chown(folder, 65534, 65534)
        # The interpreter may lie in root's own folder: to read it is the one right that this user keeps.
        right = "-all,+dac_read_search"
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        user += [f"--inh-caps={right}", f"--ambient-caps={right}", f"--bounding-set={right}"]
        home = Path(folder) / "home"
        with house(home, before=tuple(user)) as running:
            assert set(running.children()) == NAMES
            assert (home / "token").stat().st_uid == 65534
            killed = running.children()["gateway"]
            os.kill(killed, signal.SIGKILL)
            running.wait_for_child("gateway", killed)
            assert running.terminate()[0] == 0


def _beats(home: Path) -> int:
    try:
        return int(redis_client("", home).get("beats") or 0)  # type: ignore[arg-type]
    except Exception:
        return -1
