"""An answer longer than anybody reads in a chat: its beginning is said, and the whole goes out as a file."""

from __future__ import annotations

from agent.engine import Step
from agent.trajectory import Context
from sandbox_runner.long_replies import LONGEST
from tests.turns.stage import Scripted, Stage, answer
from workspace_store import outbox


async def said(stage: Stage, text: str) -> outbox.Said:
    async def talk(context: Context) -> Step:
        return answer(context, text)

    message = await stage.hear("tell me everything")
    await stage.serve(Scripted(talk))
    (reply,) = await stage.database.read(lambda connection: outbox.answers(connection, message))
    return reply


async def test_as_long_as_it_can_be_said_it_is_said(stage: Stage) -> None:
    text = "word " * (LONGEST // 5)
    reply = await said(stage, text)
    assert reply.text == text
    assert not reply.files


async def test_what_is_longer_begins_and_goes_out_whole_as_a_file(stage: Stage) -> None:
    text = "grüße " * LONGEST
    reply = await said(stage, text)
    assert reply.text.startswith("grüße grüße")
    assert "the whole of it is the file answer.md" in reply.text
    assert len(reply.text) < 5000
    (file,) = reply.files
    assert (file["name"], file["size"]) == ("answer.md", len(text.encode()))
    assert stage.blobs.get(stage.owner, file["blob"]).decode() == text
