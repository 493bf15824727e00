"""A program in the volume with the guest agent's name, or a library in Python's place, is not what starts as PID 1."""

from __future__ import annotations

from pathlib import Path

from tests.turns.stage import Scripted, Stage, answer, shell

PLANTED = (
    "mkdir -p ~/.local/bin ~/.local/lib/python3.11 && "
    "printf '#!/bin/sh\\ntouch /workspace/taken-over\\nexec sleep 60\\n' > ~/.local/bin/python3 && "
    "cp ~/.local/bin/python3 '/home/porter/.local/bin/nightporter: guest' && "
    "chmod +x ~/.local/bin/* && "
    'echo \'open("/workspace/taken-over", "w")\' | tee ~/.local/lib/python3.11/os.py ~/os.py /workspace/os.py'
)


async def test_a_planted_guest_never_runs(stage: Stage) -> None:
    async def script(context: object) -> object:
        asked = context.turn[0].text  # type: ignore[attr-defined]
        done = any(said.role == "tool" for said in context.turn)  # type: ignore[attr-defined]
        return answer(context) if done else shell(1, asked)  # type: ignore[arg-type]

    async with stage.managing() as manager:
        await stage.hear(PLANTED)
        await stage.serve(Scripted(script))  # type: ignore[arg-type]
        await manager.sleep(stage.owner)
        message = await stage.hear("tr '\\0' ' ' < /proc/1/cmdline; ls /workspace; ls -a ~/.local/bin")
        await stage.serve(Scripted(script))  # type: ignore[arg-type]
        (said,) = await stage.replies(message)
    assert "nightporter: guest" in said
    assert "taken-over" not in said
    volume = Path(manager.seating.volumes.root)
    assert not list(volume.rglob("taken-over"))
    assert list(volume.rglob("nightporter: guest"))
