"""The command line as a program: exit codes, one sentence for an error, and answers that a program may read."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from identity import users
from identity.users import Claim
from nightporter.cli.app import app  # noqa: F401 - that it can be imported
from tests import warm
from tests.nightporter.houses import ROOT, environment
from tests.nightporter.talking import TOKEN, Gateway, free_address
from workspace_store import journal, outbox, schema
from workspace_store.database import Database

MAIN = "from nightporter.cli import main; main()"


def nightporter(home: Path, *arguments: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MAIN, *arguments]
    return warm.run(command, env=environment(home, **more), text=stdin, timeout=30)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nope"], 2, "No such command 'nope'; what can be said is in: nightporter --help\n"),
        (["chat", "--nope"], 2, "No such option: --nope; what can be said is in: nightporter chat --help\n"),
        (["journal", "show", "--limit", "0"], 2, "Invalid value for '--limit'"),
        (["channel", "parse", "email", "/no/such"], 2, "Invalid value for 'files': file '/no/such' does not exist"),
        (["chat", "-m", "hi"], 3, "Nightporter was never started in "),
    ],
)
def test_an_error_is_one_sentence_and_its_exit_code(tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    ended = nightporter(tmp_path / "home", *arguments)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.startswith(said)
    assert ended.stderr.count("\n") == 1


def test_one_started_as_its_users_start_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nightporter", "chat", "-m", "hi"]
    ended = subprocess.run(command, env=environment(tmp_path / "home"), capture_output=True, text=True, timeout=30)
    assert ended.returncode == 3
    assert ended.stderr.startswith("Nightporter was never started in ")


def test_a_wrong_setting_ends_any_command_with_code_2(tmp_path: Path) -> None:
    ended = nightporter(tmp_path / "home", "status", NIGHTPORTER_HTTP__LISEN="1")
    assert ended.returncode == 2
    assert ended.stderr.endswith("did you mean NIGHTPORTER_HTTP__LISTEN?\n")


def test_status_when_nothing_runs(tmp_path: Path) -> None:
    ended = nightporter(tmp_path / "home", "status", "--json")
    assert ended.returncode == 3
    assert json.loads(ended.stdout)["running"] is False


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    for command in (["status"], ["doctor"], ["chat", "-m", "hi"]):
        nightporter(tmp_path / "home", *command)
    assert not (tmp_path / "home").exists()


async def test_status_says_what_runs_and_what_waits(tmp_path: Path) -> None:
    gateway = Gateway(free_address())
    variables = {"NIGHTPORTER_HTTP__LISTEN": str(gateway.address), "NIGHTPORTER_HTTP__TOKEN": TOKEN}
    async with gateway.open():
        as_json = await asyncio.to_thread(nightporter, tmp_path, "status", "--json", **variables)
        for_people = await asyncio.to_thread(nightporter, tmp_path, "status", **variables)
    found = json.loads(as_json.stdout)
    assert (as_json.returncode, found["ready"], found["missing"]) == (0, True, [])
    assert found["figures"] == {"inbox_waiting": 3.0, 'outbox_replies{status="dead"}': 1.0}
    assert "ready    yes" in for_people.stdout


async def test_status_names_what_was_not_delivered_and_why(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/nightporter.db"
    schema.upgrade(url)
    database = Database(url)

    def give_up(connection: Connection) -> None:
        to = outbox.Address("email", "", "a@example.org", "")
        reply = outbox.queue(
            connection, key="k", principal=uuid4(), turn=None, inbox=None, to=to, content={"text": "hello"}
        )
        outbox.claim(connection, ["email"], "gateway", [])
        assert outbox.bury(connection, reply, "gateway", "550 no such user")

    database.write_now(give_up)
    database.close()
    gateway = Gateway(free_address())
    variables = {"NIGHTPORTER_HTTP__LISTEN": str(gateway.address), "NIGHTPORTER_HTTP__TOKEN": TOKEN}
    async with gateway.open():
        as_json = await asyncio.to_thread(nightporter, tmp_path, "status", "--json", **variables)
        for_people = await asyncio.to_thread(nightporter, tmp_path, "status", **variables)
    (letter,) = json.loads(as_json.stdout)["undelivered"]
    assert (letter["state"], letter["channel"], letter["reason"]) == ("dead letter", "email", "550 no such user")
    assert "550 no such user" in for_people.stdout


async def test_chat_reads_standard_input(tmp_path: Path) -> None:
    gateway = Gateway(free_address())
    variables = {"NIGHTPORTER_HTTP__LISTEN": str(gateway.address), "NIGHTPORTER_HTTP__TOKEN": TOKEN}
    async with gateway.open():
        ended = await asyncio.to_thread(nightporter, tmp_path, "chat", stdin="from a pipe\n", **variables)
    assert (ended.returncode, ended.stdout) == (0, "heard from a pipe\n")


def test_doctor_finds_what_is_wrong(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "token").write_text("t")
    (tmp_path / "token").chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        variables = {
            "NIGHTPORTER_HTTP__LISTEN": f"127.0.0.1:{taken.getsockname()[1]}",
            "NIGHTPORTER_REDIS_URL": f"redis://127.0.0.1:{free_address().port}",
            "NIGHTPORTER_DATABASE_URL": f"postgresql://127.0.0.1:{free_address().port}/x",
        }
        ended = nightporter(tmp_path, "doctor", "--json", **variables)
    assert ended.returncode == 1
    assert not ended.stderr
    found = {finding["name"]: finding for finding in json.loads(ended.stdout)}
    assert {name for name, finding in found.items() if finding["state"] == "fail"} >= {
        "token",
        "http.listen",
        "redis",
        "database",
    }
    assert found["home"]["remedy"] == f"Run: chmod 700 {tmp_path}"
    assert "dmarc" in found["email.authentication"]["sentence"]


@pytest.mark.parametrize(("model", "state"), [("openai:gpt-4o", "ok"), ("openai:a-model-of-ones-own", "warn")])
def test_doctor_says_whether_a_budget_caps_anything(tmp_path: Path, model: str, state: str) -> None:
    variables = {"NIGHTPORTER_ENGINE__MODEL": model, "NIGHTPORTER_ENGINE__DAILY_BUDGET_USD": "5"}
    ended = nightporter(tmp_path, "doctor", "--json", **variables)
    found = {finding["name"]: finding for finding in json.loads(ended.stdout)}
    assert found["engine.daily_budget_usd"]["state"] == state


def test_doctor_says_which_setting_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "nightporter.toml").write_text("[http]\nlisen = 1\n")
    ended = nightporter(tmp_path, "doctor")
    assert ended.returncode == 1
    assert "FAIL  settings: http.lisen in " in ended.stdout


def test_help_and_status_import_little() -> None:
    """Quick because of what they do not import; a time would depend on the machine."""
    heavy = {"sqlalchemy", "redis", "httpx", "prompt_toolkit", "uvicorn", "rq", "structlog", "rich"}
    for command in ("import nightporter.cli.app", "import nightporter.cli.status"):
        code = f"{command}, sys; print(*sys.modules)"
        loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        assert not heavy & set(loaded.stdout.split())


def test_commands_that_start_no_service_import_none() -> None:
    """A move, an erasure, a look into a volume and a drain: none of them serves anybody."""
    code = "from nightporter.cli import keeping, leaving, moving, rewinding; import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"nightporter.services", "gateway.service", "router.service", "uvicorn"} & set(loaded.stdout.split())


def a_home(folder: Path, events: int) -> Path:
    """A home where somebody once was, and nothing runs."""
    home = folder / "home"
    home.mkdir()
    url = f"sqlite:///{home}/nightporter.db"
    schema.upgrade(url)
    database = Database(url)
    claim = Claim("local", "", "owner", "owner", "token")
    owner = database.write_now(lambda connection: users.create(connection, claim, "admin")).id
    told = [journal.Event("memory.written", {"text": "word " * 50 if n == 1 else "word"}) for n in range(events)]
    database.write_now(lambda connection: journal.append(connection, owner, told, under=None))
    database.close()
    return home


@pytest.mark.parametrize("words", [["undo"], ["redo"], ["restore", "owner", "notes@1"]])
def test_what_a_runner_must_do_is_refused_at_once_when_nothing_serves(tmp_path: Path, words: list[str]) -> None:
    home = a_home(tmp_path, 1)
    began = time.monotonic()
    ended = nightporter(home, "workspace", *words)
    assert time.monotonic() - began < 10
    assert ended.returncode == 3
    assert ended.stderr.startswith("Nothing serves this home now, so nothing was changed. Start it")


@pytest.mark.slow
def test_events_that_are_not_shown_are_told_of(tmp_path: Path) -> None:
    home = a_home(tmp_path, 12)
    newest = nightporter(home, "journal", "show", "--limit", "5")
    assert newest.stdout.count("memory.written") == 5
    assert "7 earlier events are not" in newest.stderr
    oldest = nightporter(home, "journal", "show", "--limit", "5", "--after", "1")
    assert "go on with `--after 6`" in oldest.stderr
    assert "Long events are cut" in oldest.stderr
    assert nightporter(home, "journal", "show").stderr == "Long events are cut at `…`; `--json` shows them whole.\n"
    assert nightporter(home, "journal", "show", "--json").stderr == ""
