"""The sockets of the manager, of its spawner and of the guest's own connection are not to be had from inside."""

from __future__ import annotations

import pytest

from tests.turns.stage import Scripted, Stage, answer, shell

FIND = "find / -xdev -type s 2>/dev/null | grep -v '^/proc/'; cat /proc/net/unix; ls /run/nightporter 2>&1"
STEAL = """python3 - <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
pidfd = libc.syscall(434, 1, 0)
for number in range(64):
    if libc.syscall(438, pidfd, number, 0) >= 0:
        print("took", number)
print("done")
END"""
OWN = "ls -l /proc/self/fd /proc/$$/fd | grep -c socket:"


async def run(stage: Stage, command: str) -> str:
    async def script(context: object) -> object:
        done = any(said.role == "tool" for said in context.turn)  # type: ignore[attr-defined]
        return answer(context) if done else shell(1, command)  # type: ignore[arg-type]

    message = await stage.hear("x")
    await stage.serve(Scripted(script))  # type: ignore[arg-type]
    (said,) = await stage.replies(message)
    return said


async def test_no_socket_of_the_host_is_to_be_found(stage: Stage) -> None:
    said = await run(stage, FIND)
    assert "manager.sock" not in said
    assert ".sock" not in said


async def test_the_guests_connection_is_not_taken_from_it(stage: Stage) -> None:
    said = await run(stage, STEAL)
    assert "done" in said
    assert "took" not in said


async def test_a_command_inherits_no_socket(stage: Stage) -> None:
    assert "\n0\n" in f"\n{await run(stage, OWN)}\n".replace("```", "\n")


@pytest.mark.parametrize("denied", ["ls -l /proc/1/fd", "cat /proc/1/environ", "cat /proc/1/maps", "cat /proc/1/mem"])
async def test_the_guest_shows_nothing_of_itself(stage: Stage, denied: str) -> None:
    assert "Permission denied" in await run(stage, f"{denied} 2>&1")
