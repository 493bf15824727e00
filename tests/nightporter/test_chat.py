"""``nightporter chat`` against a gateway on a real socket, also one that goes away and comes back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from nightporter.cli import chat, texts
from nightporter.cli.client import Client
from nightporter.cli.server import Server
from nightporter.cli.terminal import converse
from nightporter.errors import CommandError, ConfigurationError, NotRunning
from tests.nightporter.talking import PRINCIPAL, Gateway, free_address


async def until(true: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def conversation(gateway: Gateway, home: Path) -> AsyncIterator[tuple[PipeInput, asyncio.Task[int]]]:
    with create_pipe_input() as keys:
        talking = asyncio.create_task(converse(Client(gateway.server), home, keys, DummyOutput()))
        try:
            yield keys, talking
        finally:
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)


async def test_one_message_prints_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway(free_address())
    async with gateway.open():
        assert await chat._say_once(Client(gateway.server), "hello", 5, as_json=False) == 0
    assert capsys.readouterr().out == "heard hello\n"


async def test_one_message_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway(free_address(), status="failed")
    async with gateway.open():
        assert await chat._say_once(Client(gateway.server), "hello", 5, as_json=True) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == "failed"
    assert said["principal"] == PRINCIPAL
    assert said["replies"] == [{"text": "heard hello", "at": 1.0}]
    assert said["message_id"] in gateway.said


async def test_an_answer_that_takes_too_long_is_not_called_lost() -> None:
    gateway = Gateway(free_address(), status="running")
    async with gateway.open():
        with pytest.raises(CommandError, match=r"No answer within 0\.2 s; the message is not lost"):
            await chat._say_once(Client(gateway.server), "hello", 0.2, as_json=False)


async def test_a_reply_before_the_answer_is_shown_when_it_comes_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway(free_address(), status="running")
    async with gateway.open():
        talking = asyncio.create_task(chat._say_once(Client(gateway.server), "hello", 5, as_json=False))
        shown = ""
        while not shown:
            await asyncio.sleep(0.01)
            shown = capsys.readouterr().out
        assert shown == "heard hello\n"
        assert not talking.done()
        gateway.status = "done"
        assert await talking == 0
    assert capsys.readouterr().out == ""


async def test_a_database_that_is_away_for_a_moment_is_waited_for() -> None:
    gateway = Gateway(free_address(), refuse_first=2)
    async with gateway.open():
        assert await chat._say_once(Client(gateway.server), "hello", 5, as_json=False) == 0
    assert len(gateway.posts) == 3
    assert len(set(gateway.posts)) == 1


async def test_no_server_is_said_at_once() -> None:
    with pytest.raises(NotRunning, match="Nothing answers at http://127"):
        await chat._say_once(Client(Server(free_address(), "t")), "hello", 5, as_json=False)


async def test_another_homes_token_is_told() -> None:
    gateway = Gateway(free_address())
    async with gateway.open():
        with pytest.raises(ConfigurationError, match="does not accept this home's token"):
            await chat._say_once(Client(Server(gateway.address, "other")), "hello", 5, as_json=False)


async def test_a_conversation_goes_on_over_a_restart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gateway = Gateway(free_address())
    async with conversation(gateway, tmp_path) as (keys, talking):
        async with gateway.open():
            keys.send_text("one\n")
            await until(lambda: len(gateway.said) == 1)
            await until(lambda: bool(gateway.resumed_after))
        keys.send_text("two\n")  # nobody listens
        await asyncio.sleep(0.3)
        async with gateway.open():
            await until(lambda: len(gateway.said) == 2)
            await until(lambda: len(gateway.resumed_after) == 2)
            await asyncio.sleep(0.2)
            keys.send_text("/quit\n")
            assert await asyncio.wait_for(talking, 5) == 0
    shown = capsys.readouterr().out
    assert shown.count("heard one") == 1
    assert shown.count("heard two") == 1
    assert "working\n" in shown
    assert "\x1b" not in shown
    assert gateway.resumed_after[-1] == f"{PRINCIPAL}:1"
    assert (tmp_path / "chat_history").stat().st_mode & 0o777 == 0o600
    assert "+one" in (tmp_path / "chat_history").read_text()


async def test_what_is_sent_while_the_server_is_away_is_sent_once_it_is_back(tmp_path: Path) -> None:
    gateway = Gateway(free_address())
    async with conversation(gateway, tmp_path) as (keys, talking):
        keys.send_text("early\n")
        await asyncio.sleep(0.3)
        async with gateway.open():
            await until(lambda: list(gateway.said.values()) == ["early"])
            keys.send_text("\x04")
            assert await asyncio.wait_for(talking, 5) == 0


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\x1b[2Jb", "ab"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;AAAA\x1b\\x", "x"),
        ("bell\x07 \x9b2J", "bell 2J"),
        ("keep\ttabs\nand ünïcode", "keep\ttabs\nand ünïcode"),
        ("\x1b", ""),
    ],
)
def test_what_a_command_prints_cannot_steer_the_terminal(raw: str, shown: str) -> None:
    assert texts.plain(raw) == shown


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (".venv/bin/nightporter", ".venv/bin/nightporter up"),
        ("nightporter", "with: nightporter up"),
        ("/opt/lib/nightporter/__main__.py", "with: nightporter up"),
    ],
)
def test_what_to_type_is_said_as_it_was_typed(typed: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [typed, "status"])
    assert texts.server_away("http://127.0.0.1:1").endswith(said)
