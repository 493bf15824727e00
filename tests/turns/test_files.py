"""Files of messages: in the workspace before the agent thinks, once whatever crashes, and sent as they were."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from blake3 import blake3

from agent.engine import Step, ToolCall
from agent.operator import Operator
from agent.trajectory import Context
from router.envelope import Attachment
from sandbox_runner import receiving
from tests.turns.stage import Crash, Scripted, Stage, answer
from workspace_store import attachments, outbox

PDF = b"%PDF-1.7 a report"


def given(name: str, content: bytes) -> tuple[Attachment, dict[str, bytes]]:
    blob = blake3(content).hexdigest()
    return Attachment(name, "application/pdf", len(content), blob), {blob: content}


def workspace(stage: Stage) -> Path:
    return stage.folder / "volumes" / str(stage.owner) / "live" / "workspace"


def seen(context: Context) -> list[str]:
    return [file["path"] or file["problem"] for said in context.turn for file in said.data.get("files", [])]


async def sent(stage: Stage, message: UUID) -> list[dict[str, object]]:
    said = await stage.database.read(lambda connection: outbox.answers(connection, message))
    return [dict(file) for reply in said for file in reply.files]


async def test_a_file_is_there_before_the_agent_thinks(stage: Stage) -> None:
    async def script(context: Context) -> Step:
        assert seen(context) == ["/workspace/inbox/report.pdf"]
        assert (workspace(stage) / "inbox" / "report.pdf").read_bytes() == PDF
        return answer(context, "read")

    attachment, contents = given("report.pdf", PDF)
    message = await stage.hear("look", attachments=[attachment], contents=contents)
    await stage.serve(Scripted(script))
    assert await stage.replies(message) == ["read"]
    (checkpoint,) = await stage.events("checkpoint.committed")
    assert checkpoint.body is not None
    assert checkpoint.body["generation"] == 1, "a file that came is a change of the volume"


async def test_the_operator_reads_it_by_its_name_and_names_it_where_nothing_else_was_said(stage: Stage) -> None:
    attachment, contents = given("a b.txt", b"inside\n")
    first = await stage.hear("$ cat 'inbox/a b.txt'", attachments=[attachment], contents=contents)
    second = await stage.hear("", attachments=[attachment], contents=contents)
    await stage.serve(Operator())
    assert "inside" in (await stage.replies(first))[0]
    assert "`/workspace/inbox/a b.txt`" in (await stage.replies(second))[0]
    assert sorted(path.name for path in (workspace(stage) / "inbox").iterdir()) == ["a b.txt"], "the same file once"


async def test_two_files_of_one_name_are_both_kept(stage: Stage) -> None:
    (one, first), (two, second) = given("a.txt", b"1"), given("x/a.txt", b"2")
    message = await stage.hear("", attachments=[one, two], contents={**first, **second})
    again, third = given("a.txt", b"3")
    await stage.hear("", attachments=[again], contents=third)
    await stage.serve(Operator())
    inbox = workspace(stage) / "inbox"
    assert {path.name: path.read_bytes() for path in inbox.iterdir()} == {
        "a.txt": b"1",
        "a-2.txt": b"2",
        "a-3.txt": b"3",
    }
    assert "a-2.txt" in (await stage.replies(message))[0]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_neither_loses_a_file_nor_writes_it_twice(stage: Stage, when: str) -> None:
    """Before: between placing and the journal. After: in the first step, with the file moved away by then."""
    attachment, contents = given("report.pdf", PDF)
    message = await stage.hear("look", attachments=[attachment], contents=contents)
    inbox = workspace(stage) / "inbox"

    async def crashing(context: Context) -> Step:
        (inbox / "report.pdf").rename(inbox / "moved.pdf")
        raise Crash

    if when == "before":
        async with stage.running(Scripted(crashing)) as runner:
            append = runner.turns.recorder.append

            async def crash(turn: object, events: list[object], *rest: object, **more: object) -> None:
                if any(getattr(event, "kind", "") == "files.received" for event in events):
                    raise Crash
                await append(turn, events, *rest, **more)  # type: ignore[arg-type]

            runner.turns.recorder.append = crash  # type: ignore[assignment,method-assign]
            with pytest.raises(Crash):
                await runner.serve(stage.owner)
    else:
        await stage.crash(Scripted(crashing))

    async def script(context: Context) -> Step:
        assert seen(context) == ["/workspace/inbox/report.pdf"]
        return answer(context, "done")

    await stage.serve(Scripted(script))
    assert await stage.replies(message) == ["done"]
    assert [path.name for path in inbox.iterdir()] == ["report.pdf" if when == "before" else "moved.pdf"]
    assert len(await stage.events("files.received")) == 1
    assert await stage.verified()


async def test_what_is_too_large_or_never_comes_is_told_to_agent_and_person(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "GRACE_SECONDS", 0.0)
    large = Attachment("film.mkv", "video/x-matroska", 80 << 20, "slack:F1")
    lost = Attachment("lost.pdf", "application/pdf", 10, "slack:F2")

    async def script(context: Context) -> Step:
        assert len(seen(context)) == 2
        assert "larger than the 50 MiB" in seen(context)[0]
        assert "could not be fetched" in seen(context)[1]
        return answer(context, "done")

    message = await stage.hear("look", attachments=[large, lost])
    await stage.serve(Scripted(script))
    (reply,) = await stage.replies(message)
    assert "`film.mkv` did not come through" in reply
    assert "`lost.pdf` did not come through" in reply
    rows = await stage.database.read(lambda connection: attachments.of(connection, [message]))
    assert [row.status for row in rows] == ["failed", "failed"]
    assert not workspace(stage).exists() or not list(workspace(stage).iterdir()), "nothing came, nothing was touched"


def sending(path: str) -> Step:
    return Step(calls=(ToolCall("call-1", "send_file", {"path": path}),))


async def test_a_file_is_sent_as_it_was_when_it_was_asked_for(stage: Stage) -> None:
    first = await stage.hear("$ printf one > out.txt")
    await stage.serve(Operator())
    assert await stage.replies(first)

    async def crashing(context: Context) -> Step:
        if any(said.role == "tool" for said in context.turn):
            (workspace(stage) / "out.txt").write_text("changed meanwhile")
            raise Crash
        return sending("out.txt")

    message = await stage.hear("send it")
    await stage.crash(Scripted(crashing))

    async def script(context: Context) -> Step:
        return answer(context, "here")

    await stage.serve(Scripted(script))
    (file,) = await sent(stage, message)
    assert (file["name"], file["size"], file["content_type"]) == ("out.txt", 3, "text/plain")
    assert stage.blobs.get(stage.owner, str(file["blob"])) == b"one"


async def test_files_of_the_home_and_of_nested_folders_are_sent(stage: Stage) -> None:
    await stage.hear("$ mkdir -p a/b; echo 1 > a/b/c; echo 2 > ~/notes")
    messages = [
        await stage.hear(f"!send {path}") for path in ("a/b/c", "./a/../a/b/c", "~/notes", "/home/porter/notes")
    ]
    await stage.serve(Operator())
    for message in messages:
        (file,) = await sent(stage, message)
        assert file["name"] in ("c", "notes")
