"""A credential of the settings that got into a sandbox all the same (somebody typed it): it is written down nowhere."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest

from sandbox_runner.egress.screening import Screen
from sandbox_runner.egress.settings import EgressSettings
from tests.turns.stage import Stage
from tests.turns.test_environment import Workspace

# Nothing of it looks like a secret: no rule of shapes or names would find it.
PLAIN = "violet/harbour+lantern=seven"
USER, PASSWORD = "porter", "marmalade-97"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
SETTINGS = EgressSettings.model_validate(
    {
        "credentials": [
            {"host": "one.example", "value": f"Bearer {PLAIN}"},
            {"host": "two.example", "value": f"Basic {BASIC}"},
        ]
    }
)
SCREEN = Screen.of(SETTINGS.keyring())
SPELLED = {
    "as it is": PLAIN,
    "with its scheme": f"Bearer {PLAIN}",
    "in percent codes": quote(PLAIN, safe=""),
    "in small percent codes": quote(PLAIN, safe="").lower(),
    "in base64": base64.b64encode(PLAIN.encode()).decode(),
    "in base64 of urls": base64.urlsafe_b64encode(PLAIN.encode()).decode(),
    "in base64 after one more": base64.b64encode(f"x{PLAIN}yz".encode()).decode(),
    "in base64 after two more": base64.b64encode(f"xy{PLAIN}z".encode()).decode(),
    "in hexadecimal": PLAIN.encode().hex(),
    "as JSON": json.dumps({"a": PLAIN}),
    "a password of Basic": PASSWORD,
    "a pair of Basic": f"{USER}:{PASSWORD}",
    "amid other words": f"say {PLAIN} now",
}
PUT = {
    "variables": {
        "a variable": "export innocent1={0}",
        "a shell variable": "innocent2={0}",
        "an array": "innocent3=(a {0} b)",
        "a key of an array": "declare -A innocent4=([{0}]=1)",
        "the positional parameters": "set -- a {0}",
    },
    "code": {
        "a function": "innocent5() {{ echo {0}; }}",
        "an alias": "alias innocent6={0}",
        "a trap": "trap 'echo {1}' USR1",
    },
    "output": {"what is shown": "echo {0}"},
    "folders": {
        "the directory stack": "mkdir -p /workspace/d/{0} && pushd /workspace/d/{0} && cd /",
        "the working directory": "cd /workspace/d/{0}",
    },
    "tasks": {
        "the environment of a task": "innocent7={0} sleep 1000 &",
        "the arguments of a task": "sh -c 'sleep 1000' {0} &",
    },
}


@pytest.fixture
def its_screen(stage: Stage) -> Stage:
    assert stage.manager is not None
    stage.manager.screen = SCREEN
    return stage


def everything_written(its: Workspace, *, but: str = "task") -> str:
    """All files of the agent's own folder, and all the names in it."""
    folder = its.home / ".nightporter"
    return "\n".join(f"{path}\n{path.read_text()}" for path in sorted(folder.rglob("*.json")))


@pytest.mark.parametrize("kind", PUT)
async def test_wherever_it_is_put(its_screen: Stage, kind: str) -> None:
    its = await Workspace.of(its_screen)
    await its.run("kept=yes; echo shown")
    for place, command in PUT[kind].items():
        said = await its.run(command.format(f"'{PLAIN}'", PLAIN))
        assert any(note.startswith("not kept: ") for note in said.notes), (place, said.notes)
        assert PLAIN not in everything_written(its), place
    for _ in range(2):
        text = everything_written(its)
        assert PLAIN not in text
        assert '"kept"' in text
        assert PLAIN not in " ".join(said.notes)
        await its.sleep()
        await its.wake()
        assert await its.output("echo $kept") == "yes"


async def test_however_it_is_spelled(its_screen: Stage) -> None:
    its = await Workspace.of(its_screen)
    for number, (spelling, text) in enumerate(SPELLED.items()):
        quoted = "'" + text.replace("'", "'\\''") + "'"
        said = await its.run(f"v{number}={quoted}")
        assert f"not kept: v{number}" in said.notes, spelling
    text = everything_written(its)
    for spelling, secret in SPELLED.items():
        assert secret not in text, spelling
        assert json.dumps(secret)[1:-1] not in text, spelling


async def test_a_terminal_of_its_name(its_screen: Stage) -> None:
    its = await Workspace.of(its_screen)
    await its.manager.run(
        its_screen.owner, call_id="named", command="true", terminal=PASSWORD, timeout=20, background=False,
        on_output=lambda _: None,
    )  # fmt: skip
    assert PASSWORD not in everything_written(its)


async def test_in_what_is_installed(its_screen: Stage) -> None:
    its = await Workspace.of(its_screen)
    info = "~/.local/lib/python3.11/site-packages/mine-1.0.dist-info"
    other = "~/.local/lib/python3.11/site-packages/other-1.0.dist-info"
    url = json.dumps({"url": f"https://packages.example/{PASSWORD}/mine.whl", "archive_info": {}})
    await its.run(
        f"mkdir -p {info} {other} && printf 'Name: mine\\nVersion: 1.0\\n' > {info}/METADATA && "
        f"printf 'Name: other\\nVersion: 1.0\\n' > {other}/METADATA; cp /workspace/url {info}/direct_url.json || true"
    )
    its.put("url", url.encode())
    await its.run(f"cp /workspace/url {info}/direct_url.json; touch ~/.local/lib/python3.11/site-packages; sleep 0.2")
    written = await its.until("other==1.0", "not_kept")
    assert PASSWORD not in everything_written(its)
    assert "other==1.0" in written["python"][0]["packages"]


async def test_what_is_none_is_kept_and_no_digest_of_one_is_inside(its_screen: Stage) -> None:
    """Near misses are written; and no process inside, the guest included, has anything to guess at."""
    its = await Workspace.of(its_screen)
    said = await its.run("almost=violet/harbour+lantern=six; harbour=violet; word=marmalade")
    assert "almost" in everything_written(its)
    assert said.notes == ()
    where = "~ /workspace /tmp /run /opt/nightporter/guest"
    for known in (PLAIN, PASSWORD, BASIC):
        first, rest = known[:5], known[5:]
        assert await its.output(f"grep -rlF \"{first}\"'{rest}' {where} 2>/dev/null") == ""
        assert await its.output(f"cat /proc/[0-9]*/environ 2>/dev/null | grep -acF \"{first}\"'{rest}'") == "0"


@pytest.mark.slow
async def test_nobody_answers(its_screen: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be asked about is not written; once it can be, it is."""
    its = await Workspace.of(its_screen)
    await its.run("before=1")
    monkeypatch.setattr("sandbox_runner.guest_connection.GuestConnection._advise", lambda *_: None)
    said = await its.run(f"during='{PLAIN}'; fine=1234")
    assert "not kept: something that could not be checked" in said.notes
    assert PLAIN not in everything_written(its)
    assert '"before"' in everything_written(its)
    monkeypatch.undo()
    await its.run("true")
    assert '"fine"' in everything_written(its)
    assert PLAIN not in everything_written(its)


def test_no_credentials_nothing_to_ask() -> None:
    assert Screen.of(EgressSettings().keyring()) is None
    assert SCREEN is not None
    assert PLAIN not in repr(SCREEN)
