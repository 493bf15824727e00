"""MCP servers in a whole house: one elsewhere, through the egress proxy, made with the official SDK."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from nightporter.testing import House, wait_until

pytestmark = pytest.mark.slow
ELSEWHERE = "127.0.0.2"
"""Of this machine too, and nothing that a sandbox takes for itself."""
MakeHouse = Callable[..., House]

SERVER = """
import sys
from mcp.server import MCPServer

server = MCPServer("hotel")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run("streamable-http", host="0.0.0.0", port=int(sys.argv[1]))
"""


@pytest.fixture
def port() -> Iterator[int]:
    """Where the server listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        free = int(found.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(free)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def listens() -> bool:
        with socket.socket() as trying:
            return trying.connect_ex(("127.0.0.1", free)) == 0

    wait_until(listens, "the server listens")
    yield free
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def servers(port: int, host: str = "127.0.0.1") -> str:
    return json.dumps({"hotel": {"url": f"http://{host}:{port}/mcp"}})


def test_it_is_used_through_the_proxy_and_in_the_ledger(make_house: MakeHouse, port: int) -> None:
    allowed = f"127.0.0.1:{port}"
    house = make_house(mcp__servers=servers(port), egress__allow=allowed, egress__allow_private="127.0.0.1")
    assert "`hotel__add(a, b)` (once): A tool of the MCP server hotel, which says of it: Add two" in house.say("!tool")
    assert house.say('!tool hotel__add {"a": 2, "b": 40}') == "42"
    ledger = house.run("journal", "egress", "local:owner", "--json").stdout
    assert [json.loads(line)["port"] for line in ledger.splitlines()].count(port) >= 6


def said(house: House, text: str) -> str:
    """All that is said to one message, questions too."""
    return "\n\n".join(reply["text"] for reply in house.answer(house.post(text))["replies"])


def waiting(house: House) -> list[dict[str, str]]:
    return [json.loads(line) for line in house.run("actions", "list", "--json").stdout.splitlines()]


def test_without_leave_it_is_not_reached_and_a_person_is_asked(make_house: MakeHouse, port: int) -> None:
    house = make_house(mcp__servers=servers(port, ELSEWHERE), egress__allow_private=ELSEWHERE)
    listed = said(house, "!tool")
    assert "hotel__add" not in listed
    assert f"The MCP server `hotel` is not there: {ELSEWHERE}:{port} is not on the list of hosts" in listed
    (action,) = waiting(house)
    assert f"let your sandbox reach `{ELSEWHERE}:{port}`" in action["text"]
    assert action["code"] in listed
    assert "There is no tool `hotel__add`" in said(house, '!tool hotel__add {"a": 1, "b": 2}')
    assert f"may reach {ELSEWHERE}:{port} from now on" in said(house, f"/approve {action['code']}")
    # At once, not when the server would have been asked again anyway.
    assert said(house, '!tool hotel__add {"a": 2, "b": 40}') == "42"


def test_a_refusal_keeps_it_out_and_nobody_is_asked_again(make_house: MakeHouse, port: int) -> None:
    house = make_house(mcp__servers=servers(port, ELSEWHERE), egress__allow_private=ELSEWHERE)
    said(house, "!tool")
    (action,) = waiting(house)
    said(house, f"/deny {action['code']}")
    answer = said(house, '!tool hotel__add {"a": 1, "b": 2}')
    assert "There is no tool `hotel__add`" in answer
    assert f"a person refused {ELSEWHERE}" in answer
    assert waiting(house) == []
