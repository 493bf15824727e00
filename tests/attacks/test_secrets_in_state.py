"""Secrets that are told by their shape or their name, wherever in a sandbox they are: nothing keeps them but it.

What is typed in a message is the person's own and in the journal as such; so here they come from a file.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent.engine import Step
from agent.trajectory import Context
from sandbox_runner.guest.scrollback import without_secrets
from sandbox_runner.guest.secret_filter import text_holds_secret
from tests.sandbox_runner.guest.conftest import House
from tests.secret_shapes import ANY, ON_MANY_LINES, ON_ONE_LINE, pieces
from tests.turns.stage import Scripted, Stage, answer, shell

# ``$S`` is unset before what is written down is looked at, unless it is what is looked for.
PUT = {
    "plain": "plain=$S",
    "exported": "export exported=$S",
    "amid": 'amid="before $S after"',
    "list": 'list=(a "$S" b)',
    "keyed": 'declare -A keyed=([a]="$S")',
    "lines": 'mapfile -t lines <<<"$S"',
    "function body": 'eval "body() { echo ${S@Q}; }"',
    "alias short": 'alias short="echo $S"',
    "trap SIGUSR1": 'trap -- "echo ${S@Q}" USR1',
    "positional parameters": 'set -- a "$S"',
}
SHOWN = {
    "printed": 'printf "%s\\n" "$S"',
    "printed without its first line": 'tail -n +2 <<<"$S"',
    "environment of a task": '(innocent="$S" exec sleep 1000) & true',
    "arguments of a task": 'bash -c "sleep 1000; true" "$S" & true',
    "history": 'history -s -- "echo $S"',
    "deep": 'mkdir -p -- "d/${S:0:200}" 2>/dev/null && cd -- "d/${S:0:200}"; true',
}
common = {"suppress_health_check": list(HealthCheck), "print_blob": True}
whole = {**common, "phases": set(Phase) - {Phase.shrink}}
"""For lives of a guest, each of seconds: a failure is said at once."""


@pytest.mark.parametrize("kind", [*ON_ONE_LINE, *ON_MANY_LINES])
def test_each_shape_is_known_alone_amid_text_and_on_a_screen(kind: str) -> None:
    @settings(max_examples=15, **common)
    @given({**ON_ONE_LINE, **ON_MANY_LINES}[kind])
    def known(secret: str) -> None:
        for text in (secret, f"x={secret}", f'say "{secret}" now', f"a\n{secret}\nb", f"({secret})"):
            assert text_holds_secret(text), text
        shown = "\n".join(without_secrets(["before", *secret.split("\n"), "after, it goes on"]))
        assert not any(piece in shown for piece in pieces(secret))
        assert "before" in shown
        assert "after, it goes on" in shown

    known()


@pytest.mark.parametrize("kind", ON_MANY_LINES)
def test_a_key_is_known_by_its_end_alone(kind: str) -> None:
    @settings(max_examples=50, **common)
    @given(ON_MANY_LINES[kind])
    def known(secret: str) -> None:
        shown = without_secrets(["before", "it", *secret.split("\n")[1:], "after, it goes on"])
        assert not any(piece in "\n".join(shown) for piece in pieces(secret))
        assert shown[:2] == ["before", "it"]
        assert shown[-1] == "after, it goes on"

    known()


@pytest.mark.parametrize(
    "text",
    [
        "cd /workspace/task-management-system/node_modules",
        "git rebase --onto main feature/long-name-of-a-branch-0123456789",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "commit 2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
        "550e8400-e29b-41d4-a716-446655440000",
        "http://localhost:3000/@vite/client",
        "docker run -p 8080:80 nginx",
        'curl -u "$USER:$PASSWORD" https://x.example',
        "PASS: 12 tests",
        "export TOKEN=$(pass show x)",
        'export TOKEN="$OTHER"',
        "KEYBOARD=us MONKEY=1 TOKENIZERS_PARALLELISM=false",
        "pip install --upgrade scikit-learn==1.5.0",
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIDXTCCAkWgAwIBAgIJAKL0UG+mRkmSMA0GCSqGSIb3DQEBCwUAMEUxCzAJBgNV",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@x",
        "case $x in password:*) echo; esac",
        'mysql -h db -P 3306 -e "select 1"',
        "x = ['a', 'b']; key = 'name'",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
    ],
)
def test_what_is_none(text: str) -> None:
    assert not text_holds_secret(text)


async def everywhere(folder: Path, secret: str) -> None:
    house = House(folder)
    guest = await house.wake()
    try:
        (house.workspace / "secret").write_text(secret)
        notes: list[str] = []
        for command in (*PUT.values(), *SHOWN.values()):
            said = await guest.run(f"S=$(</{house.workspace}/secret); {command}; unset S; kept=yes")
            notes += said.notes
        for what in PUT:
            assert f"not kept: {what}" in notes, (what, notes)
        await guest.connection.capture()
        left = [house.state_path.read_text(), *notes]
        assert json.loads(left[0])["terminals"]["main"]["variables"]["kept"]["value"] == "yes"
        assert len(json.loads(left[0])["tasks"]) == 2
        left += [str(task) for task in await guest.connection.tasks()]
        await guest.kill()
        woken = await house.wake()
        assert woken.restored is not None
        left += [*woken.restored.notes, str(woken.restored.terminals), house.state_path.read_text()]
        for text in left:
            for piece in pieces(secret):
                assert piece not in text
                assert json.dumps(piece)[1:-1] not in text
    finally:
        for each in house.guests:
            await each.kill()


@pytest.mark.slow
@settings(max_examples=3, **whole)
@given(ANY)
def test_it_is_written_nowhere_whatever_it_is_and_wherever_it_is(secret: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(everywhere(Path(folder), secret))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*ON_ONE_LINE, *ON_MANY_LINES])
def test_each_is_written_nowhere(kind: str) -> None:
    @settings(max_examples=3, **whole)
    @given({**ON_ONE_LINE, **ON_MANY_LINES}[kind])
    def nowhere(secret: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(everywhere(Path(folder), secret))

    nowhere()


async def test_neither_journal_nor_briefing_nor_anything_on_disk_has_one(stage: Stage) -> None:
    """A whole turn, a sleep, a wake and the end of a task, with one of every kind in every place."""
    assert stage.manager is not None
    secrets = [an_example_of(kind) for kind in (*ON_ONE_LINE.values(), *ON_MANY_LINES.values())]
    await stage.hear("x")
    await stage.manager.wake(stage.owner, "a person")
    live = stage.folder / "volumes" / str(stage.owner) / "live"
    for number, secret in enumerate(secrets):
        (live / f"workspace/s{number}").write_text(secret)
    lines = []
    for number in range(len(secrets)):
        lines.append(f"S=$(<s{number}); v{number}=$S; export e{number}=$S; f{number}=(a $S)")
        lines.append(f'eval "f{number}() {{ echo ${{S@Q}}; }}"; alias a{number}="$S"; history -s -- "echo $S"')
    lines += ["bash -c 'sleep 0.2; exit 3' \"$S\" &", "bash -c 'sleep 1000; true' \"$S\" &", "unset S; kept=yes"]
    (live / "workspace/all").write_text("\n".join(lines))
    contexts: list[Context] = []

    async def script(context: Context) -> Step:
        contexts.append(context)
        if any(said.role == "tool" for said in context.turn):
            return answer(context)
        return shell(1, next(said.text for said in context.turn if said.role == "user"))

    for command in (". ./all", "sleep 0.5; jobs; echo $kept", "echo $kept"):
        await stage.manager.give_back(stage.owner, "a person")
        message = await stage.hear(command)
        await stage.serve(Scripted(script))
        assert await stage.status(message) == "done"
        if command == ". ./all":
            assert await stage.manager.sleep(stage.owner)
    assert contexts
    assert "yes" in "\n".join(await stage.replies(message))
    assert await stage.manager.sleep(stage.owner)
    events = await stage.events()
    told = "\n".join(json.dumps(event.body, ensure_ascii=False) for event in events)
    assert "not kept: v0" in told
    assert any(event.kind == "sandbox.slept" for event in events)
    written = "\n".join(str(context) for context in contexts) + told
    written += "\n".join(path.read_text() for path in sorted((live / "home/.nightporter").glob("*.json")))
    for secret in secrets:
        for piece in pieces(secret):
            assert piece not in written
            assert json.dumps(piece)[1:-1] not in written


def an_example_of(kind: st.SearchStrategy[str]) -> str:
    found: list[str] = []

    @settings(max_examples=1, database=None, derandomize=True, phases=[Phase.generate], **common)
    @given(kind)
    def take(secret: str) -> None:
        found.append(secret)

    take()
    return found[0]
