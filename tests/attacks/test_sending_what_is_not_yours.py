"""Files that are asked for and are none of the workspace: other paths, links, pipes, devices, other names."""

from __future__ import annotations

import os

import pytest

from agent.engine import Step
from agent.operator import Operator
from agent.trajectory import Context
from tests.turns.stage import Scripted, Stage, answer
from tests.turns.test_files import sending, sent, workspace

REFUSED = {
    "../../etc/passwd": "outside",
    "/etc/passwd": "outside",
    "/workspace/../etc/passwd": "outside",
    "~/../../etc/passwd": "outside",
    "/workspace": "outside",
    "passwd-link": "not a plain file",
    "folder-link/passwd": "not a plain file",
    "inner-link": "not a plain file",
    "fifo": "not a plain file",
    "folder": "not a plain file",
    "socket": "not a plain file",
    "missing": "there is no file",
    "nul\0byte": "outside",
    "sparse": "has more than",
}


async def test_only_plain_files_of_the_volume_are_sent(stage: Stage) -> None:
    made = await stage.hear(
        "$ ln -s /etc/passwd passwd-link; ln -s /etc folder-link; echo x > inner; ln -s inner inner-link; mkfifo fifo; "
        "mkdir folder; truncate -s 60M sparse; "
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\""
    )
    await stage.serve(Operator())
    assert "No such" not in (await stage.replies(made))[0]
    for path, said in REFUSED.items():

        async def script(context: Context, path: str = path) -> Step:
            done = any(one.role == "tool" for one in context.turn)
            return answer(context) if done else sending(path)

        message = await stage.hear("go")
        await stage.serve(Scripted(script))
        assert said in (await stage.replies(message))[0], path
        assert await sent(stage, message) == [], path


async def test_another_name_of_a_file_that_is_not_the_volumes_is_not_sent(stage: Stage) -> None:
    if os.geteuid() != 0:
        pytest.skip("every file here is of one user")
    await stage.hear("$ true")
    await stage.serve(Operator())
    secret = stage.folder / "secret"
    secret.write_text("of the host")
    os.link(secret, workspace(stage) / "harmless.txt")
    message = await stage.hear("!send harmless.txt")
    await stage.serve(Operator())
    assert "not a plain file" in (await stage.replies(message))[0]
    assert await sent(stage, message) == []


async def test_a_device_is_not_read(stage: Stage) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes a device")
    await stage.hear("$ true")
    await stage.serve(Operator())
    os.mknod(workspace(stage) / "zero", 0o020666, os.makedev(1, 5))
    message = await stage.hear("!send zero")
    await stage.serve(Operator())
    assert "not a plain file" in (await stage.replies(message))[0]
    assert await sent(stage, message) == []
