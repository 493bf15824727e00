"""The host's end: a guest that lies, floods or dies ends its connection with a named error."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from agent.sandbox import SandboxError, SandboxLost
from sandbox_runner.guest_connection import GuestConnection, GuestProtocolError, GuestRefused
from sandbox_runner.guest_frames import MAX_FRAME

GOOD = {
    "call_id": "c",
    "status": "exited",
    "exit_code": 0,
    "output": "",
    "omitted_bytes": 0,
    "duration_ms": 1,
    "terminal": "main",
    "cwd": "/",
    "task": None,
    "state_digest": None,
    "notes": [],
}


async def against(answer: bytes) -> Any:
    """Run one command against a guest that says ``answer``."""
    ours, theirs = socket.socketpair()
    connection = await GuestConnection.over(ours)
    reader, writer = await asyncio.open_unix_connection(sock=theirs)

    async def lie() -> None:
        await reader.readline()
        writer.write(answer)
        await writer.drain()

    liar = asyncio.create_task(lie())
    try:
        return await asyncio.wait_for(connection.run("c", "true", timeout=5), 10)
    finally:
        liar.cancel()
        writer.close()
        await connection.close()


def frame(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


async def test_a_good_answer_is_taken() -> None:
    assert (await against(frame(id=1, ok=True, result=GOOD))).exit_code == 0


@pytest.mark.parametrize(
    "answer",
    [
        b"not json\n",
        b"[" * 100_000 + b"\n",
        b"[]\n",
        b"\xff\n",
        frame(id=2, ok=True, result=GOOD),
        frame(id="1", ok=True, result=GOOD),
        frame(id=1, ok=True),
        frame(id=1, ok=False),
        frame(id=1, ok=True, result={**GOOD, "exit_code": "0"}),
        frame(id=1, ok=True, result={**GOOD, "call_id": "other"}),
        frame(id=1, ok=True, result={**GOOD, "status": "fine"}),
        frame(id=1, ok=True, result={**GOOD, "state_digest": "../../etc/passwd"}),
        frame(id=1, ok=True, result={**GOOD, "notes": ["x" * 10_000]}),
        frame(id=1, ok=True, result={**GOOD, "omitted_bytes": -1}),
        frame(event="unheard of"),
        frame(event="output", call_id=3, data=[]),
        b"x" * (MAX_FRAME + 10) + b"\n",
    ],
    ids=range(17),
)
async def test_a_lie_ends_the_connection(answer: bytes) -> None:
    with pytest.raises(GuestProtocolError):
        await against(answer)


async def test_a_frame_without_end_is_not_read_for_ever() -> None:
    with pytest.raises(GuestProtocolError, match="more than"):
        await against(b"x" * (3 * MAX_FRAME))


async def test_all_pending_calls_hear_of_a_lost_sandbox(guest: Any) -> None:
    calls = [asyncio.create_task(guest.run("sleep 60", terminal=name)) for name in ("one", "two")]
    while len(await guest.connection.tasks()) or not guest.connection._pending:
        await asyncio.sleep(0.01)
    guest.process.kill()
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(outcome, SandboxLost)
    with pytest.raises(SandboxLost):
        await guest.run("true")


async def test_a_caller_that_gives_up_does_not_disturb_the_others(guest: Any) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await guest.run("sleep 0.3; echo late", call_id="late")
    result = await guest.connection.result("late")
    assert result is not None
    assert result.output == "late\n"
    assert guest.connection.lost is None


@pytest.mark.parametrize(
    "options", [{"terminal": "../x"}, {"terminal": ""}, {"command": "a\0b"}, {"command": ""}, {"call_id": ""}]
)
async def test_a_request_that_makes_no_sense_is_refused(guest: Any, options: dict[str, str]) -> None:
    with pytest.raises(GuestRefused):
        await guest.run(**{"command": "true", **options})
    assert await guest.output("echo fine") == "fine\n"


async def test_a_request_that_is_too_large_is_not_sent(guest: Any) -> None:
    with pytest.raises(SandboxError, match="larger"):
        await guest.run("x" * MAX_FRAME)
    assert await guest.output("echo fine") == "fine\n"


async def test_unknown_tasks_are_refused(guest: Any) -> None:
    with pytest.raises(GuestRefused, match="no task 99"):
        await guest.connection.stop_task(99)


async def test_a_command_before_the_restore_is_refused(house: Any, guest: Any) -> None:
    await guest.run("x=1")
    await guest.kill()
    before = house.state_path.read_bytes()
    woken = await house.wake(restore=False)
    with pytest.raises(GuestRefused, match="restore comes first"):
        await woken.run("true")
    assert house.state_path.read_bytes() == before
    restored, result = await asyncio.gather(woken.connection.restore(house.kept()), woken.run("echo $x"))
    assert list(restored.terminals) == ["main"]
    assert result.output == "1\n"
    with pytest.raises(GuestRefused, match="once"):
        await woken.connection.restore()
