"""/export: a person gets what is kept of them in a file, and a room gets nobody's."""

from __future__ import annotations

import io
import json
import zipfile
from uuid import UUID

from sqlalchemy import text

from agent.engine import Step
from agent.trajectory import Context
from sandbox_runner import texts
from tests.turns.stage import Scripted, Stage, answer
from workspace_store import memory


async def note(context: Context) -> Step:
    return answer(context, "noted")


async def test_what_is_kept_is_sent_as_a_file(stage: Stage) -> None:
    await stage.hear("the heron nests by the mill")
    await stage.serve(Scripted(note))
    await stage.database.write(lambda c: memory.write_note(c, stage.owner, "k", "the otter swims", None))
    message = await stage.hear("/export")
    await stage.serve(Scripted(note))
    assert await stage.status(message) == "done"
    assert await stage.replies(message) == [texts.EXPORTED]
    content = await stage.database.read(
        lambda c: json.loads(
            c.execute(text("SELECT content FROM outbox WHERE inbox = :of"), {"of": message.hex}).scalar_one()
        )
    )
    (file,) = content["files"]
    data = stage.blobs.get(stage.owner, file["blob"])
    assert len(data) == file["size"]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {"notes.jsonl", "turns.jsonl", "journal.jsonl", "README.txt"} <= set(archive.namelist())
        assert b"heron" in archive.read("turns.jsonl")
        assert b"otter" in archive.read("notes.jsonl")
    assert await stage.verified()


async def test_a_room_is_sent_nothing(stage: Stage) -> None:
    message = await stage.hear("/export", room="mill")
    async with stage.running(Scripted(note)) as runner:
        row = await stage.database.read(lambda c: c.execute(text("SELECT id FROM principal WHERE kind = 'room'")).one())
        await runner.serve(UUID(str(row.id)))
    assert await stage.replies(message) == [texts.EXPORT_IN_PRIVATE]
