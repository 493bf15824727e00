"""An agent that a team wrote: durable without a line about durability, whatever is killed in the middle of a tool."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from nightporter.testing import House, wait_until
from nightporter.testing.models import ModelServer, Say
from nightporter.testing.web import until
from tests.scenarios.test_models import settings

pytestmark = pytest.mark.slow
MakeHouse = Callable[..., House]

AGENT = '''
import asyncio, pathlib, time
from nightporter import Agent, Call, Context, Refuse, tool

HERE = pathlib.Path(__file__).parent

def begin(name, key):
    """Note that it ran, and the first time wait to be killed."""
    with open(HERE / "ran", "a") as ran:
        ran.write(f"{name} {key}\\n")
    while not (HERE / "go").exists():
        time.sleep(0.02)

@tool(kind="pure")
def look(room: int, context: Context) -> str:
    """Look at a room."""
    begin("look", context.key)
    return f"Room {room} is free."

@tool(kind="idempotent")
async def pay(amount: int, key: str) -> dict:
    """Pay for a room."""
    await asyncio.to_thread(begin, "pay", key)
    return {"paid": amount}

@tool
def ring(room: int) -> str:
    """Ring a room."""
    begin("ring", "-")
    return "It rang."

@tool(kind="pure")
def save(name: str, text: str, context: Context) -> str:
    """Save a text in the workspace, and read it again."""
    context.write_file(f"saved/{name}", text)
    return f"{context.read_file(f'saved/{name}').decode()} {context.run('pwd; ls saved').output} {context.channel}"

@tool(approval="ask")
def wake(room: int) -> str:
    """Wake a guest."""
    with open(HERE / "ran", "a") as ran:
        ran.write("wake -\\n")
    return f"Room {room} is awake."

def rules(call: Call):
    while (HERE / "hold").exists():
        time.sleep(0.02)
    if call.tool == "ring" and call.arguments["room"] == 13:
        return Refuse("there is no room 13")

agent = Agent("You are the night porter of Hotel Ada.", [look, pay, ring, save, wake], ["Be brief.", rules])
'''


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server
        server.release()


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    folder = tmp_path / "ada"
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    return folder


def ran(agent: Path) -> list[list[str]]:
    trace = agent / "ran"
    return [line.split() for line in trace.read_text().splitlines()] if trace.exists() else []


async def test_a_model_has_the_role_the_rules_and_the_tools(
    make_house: MakeHouse, models: ModelServer, agent: Path
) -> None:
    (agent / "go").touch()
    models.say(Say(calls=[("look", {"room": 7}), ("ring", {"room": 13})]), Say("Free, but 13 there is not."))
    house = await asyncio.to_thread(make_house, **settings(models), agent__file=str(agent / "agent.py"))
    assert await asyncio.to_thread(house.say, "Is 7 free? Ring 13.") == "Free, but 13 there is not."
    first, second = models.asked
    assert first.system.startswith("You are the night porter of Hotel Ada.\n- Be brief.\n")
    assert "You are Nightporter" not in first.system
    assert {"look", "pay", "ring", "shell"} <= set(first.tools)
    assert "Room 7 is free." in second.results()[0]
    assert "there is no room 13" in second.results()[1]
    assert [name for name, _ in ran(agent)] == ["look"]


@pytest.mark.parametrize(
    ("name", "arguments", "runs", "result", "ledger"),
    [
        ("look", {"room": 7}, 2, "Room 7 is free.", []),
        ("pay", {"amount": 80}, 2, '{"paid":80}', [("pay", "settled")]),
        ("ring", {"room": 7}, 1, "may have been done in part, in full or not at all", [("ring", "uncertain")]),
    ],
)
async def test_killed_in_mid_tool_it_goes_on_as_its_kind_allows(
    make_house: MakeHouse,
    models: ModelServer,
    agent: Path,
    name: str,
    arguments: dict[str, int],
    runs: int,
    result: str,
    ledger: list[tuple[str, str]],
) -> None:
    house = await asyncio.to_thread(make_house, **settings(models), agent__file=str(agent / "agent.py"))
    models.say(Say(calls=[(name, arguments)]), Say("Well."))
    message = await asyncio.to_thread(house.post, "Do it.")
    await until(lambda: ran(agent), "the tool has begun", 30)
    await asyncio.to_thread(house.kill, "runner")
    (agent / "go").touch()
    found = await asyncio.to_thread(house.answer, message)
    assert [reply["text"] for reply in found["replies"]] == ["Well."]
    assert len(models.asked) == 2, "no question was asked again"
    assert result in models.asked[1].results()[0]
    assert len(ran(agent)) == runs
    assert len({key for _, key in ran(agent)}) == 1, "always with the same key"
    listed = await asyncio.to_thread(house.run, "journal", "egress", "--json")
    effects = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [(effect["host"], effect["status"]) for effect in effects] == ledger


async def test_killed_between_the_models_answer_and_the_tool_it_is_not_asked_again(
    make_house: MakeHouse, models: ModelServer, agent: Path
) -> None:
    (agent / "hold").touch()
    (agent / "go").touch()
    house = await asyncio.to_thread(make_house, **settings(models), agent__file=str(agent / "agent.py"))
    models.say(Say(calls=[("ring", {"room": 7})]), Say("It rang."))
    message = await asyncio.to_thread(house.post, "Ring 7.")
    seen = lambda: [e for e in house.events() if e["kind"] == "model.responded"]  # noqa: E731
    await asyncio.to_thread(wait_until, seen, "the answer is written down")
    await asyncio.to_thread(house.kill, "runner")
    assert ran(agent) == []
    (agent / "hold").unlink()
    found = await asyncio.to_thread(house.answer, message)
    assert [reply["text"] for reply in found["replies"]] == ["It rang."]
    assert len(models.asked) == 2
    assert [name for name, _ in ran(agent)] == ["ring"]


async def test_without_a_model_tools_can_be_tried(make_house: MakeHouse, agent: Path) -> None:
    (agent / "go").touch()
    house = await asyncio.to_thread(make_house, agent__file=str(agent / "agent.py"))
    assert "`look(room)` (pure): Look at a room." in await asyncio.to_thread(house.say, "!tool")
    assert await asyncio.to_thread(house.say, '!tool look {"room": 7}') == "Room 7 is free."
    said = await asyncio.to_thread(house.say, '!tool save {"name": "a b", "text": "héllo"}')
    assert said.split() == ["héllo", "/workspace", "'a", "b'", "local"]
    assert await asyncio.to_thread(house.say, "$ cat 'saved/a b'; pwd") == "```\nhéllo/workspace\n```"
    long = "x" * 600_000
    assert (await asyncio.to_thread(house.say, f'!tool save {{"name": "long", "text": "{long}"}}')).startswith("xxx")
    assert await asyncio.to_thread(house.say, "$ wc -c < saved/long") == "```\n600000\n```"
    assert "room: Field required" in await asyncio.to_thread(house.say, "!tool look {}")
    assert "There is no tool `sing`" in await asyncio.to_thread(house.say, "!tool sing")


async def test_a_tool_that_asks_runs_once_it_is_approved(
    make_house: MakeHouse, models: ModelServer, agent: Path
) -> None:
    house = await asyncio.to_thread(make_house, **settings(models), agent__file=str(agent / "agent.py"))
    models.say(Say(calls=[("wake", {"room": 7})]), Say("I have asked."), Say("Room 7 is up."))
    await asyncio.to_thread(lambda: house.answer(house.post("Wake 7.")))
    assert ran(agent) == []
    listed = await asyncio.to_thread(house.run, "actions", "list", "--json")
    (action,) = [json.loads(line) for line in listed.stdout.splitlines()]
    assert "use `wake` with room 7" in action["text"]
    await asyncio.to_thread(house.kill, "runner")
    await asyncio.to_thread(house.say, f"/approve {action['code']}")
    await until(lambda: len(models.asked) == 3, "the turn that waited has gone on", 30)
    assert "Room 7 is awake." in models.asked[2].results()[-1]
    assert [name for name, _ in ran(agent)] == ["wake"]


@pytest.mark.parametrize("command", ["up", "runner"])
def test_a_file_that_is_wrong_ends_the_start_with_its_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "agent.py").write_text("from nightporter import Agent\nagent = Agent(rol='Ada')\n")
    house = House(tmp_path / "home", redis_url="redis://127.0.0.1:1/0")
    done = subprocess.run(
        [sys.executable, "-m", "nightporter", command, "--agent", "agent.py"],
        env={**house.environment, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert f"{tmp_path / 'agent.py'}, line 2: TypeError" in done.stderr
    assert "agent = Agent(rol='Ada')" in done.stderr
    assert "Traceback" not in done.stderr
