"""A guest that somebody has taken over: what it says is capped, checked, and ends its connection if it is wrong."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import Callable

import pytest

from agent.sandbox import SandboxLost
from sandbox_runner.guest_connection import GuestConnection


async def against(say: Callable[[int], bytes]) -> None:
    """Ask a forged guest for its tasks, and have it answer with ``say(id of the question)``. Raises SandboxLost."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=theirs, limit=1 << 24)
    guest = await GuestConnection.over(ours)
    asking = asyncio.create_task(guest.tasks())
    number = json.loads(await reader.readline())["id"]
    try:
        writer.write(say(number))
        async with asyncio.timeout(20):
            await asking
    finally:
        writer.close()
        await guest.close()


def answer(result: object, **more: object) -> Callable[[int], bytes]:
    return lambda number: json.dumps({"id": number, "ok": True, "result": result, **more}).encode() + b"\n"


TASK = {
    "task": 1, "argv": ["x"], "cwd": "/", "state": "running", "exit_code": None, "log": "", "policy": "ask",
    "starts": 1, "started_at": 0.0,
}  # fmt: skip


async def test_a_true_answer_is_taken() -> None:
    await against(answer({"tasks": [TASK]}))


@pytest.mark.parametrize(
    "say",
    [
        lambda _: b"no json\n",
        lambda _: b"[" * 50_000 + b"\n",
        lambda _: b"{}\n",
        lambda number: json.dumps({"id": number + 1, "ok": True, "result": {"tasks": []}}).encode() + b"\n",
        answer(None),
        answer({"tasks": "all"}),
        answer({"tasks": [{**TASK, "task": -1}]}),
        answer({"tasks": [{**TASK, "state": "root"}]}),
        answer({"tasks": [{**TASK, "argv": [["x"]]}]}),
        lambda _: b'{"event": "unheard-of"}\n',
        lambda _: b'{"event": "output", "call_id": 7, "data": null}\n',
    ],
)
async def test_a_forged_answer_ends_the_connection(say: Callable[[int], bytes]) -> None:
    with pytest.raises(SandboxLost):
        await against(say)


async def test_an_answer_without_end() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SandboxLost, match="more than"):
        await against(lambda _: b"x" * (32 << 20))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000, "kilobytes"
