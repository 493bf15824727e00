"""Memory as an engine has it: kept, found word for word, superseded in the open, never secret, forgotten when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection

from agent import texts
from agent.memory_tools import MEMORY_TOOLS, recall
from agent.tool import Ask, Here, Refuse, Tool, ToolResult
from tests.workspace_store.people import person, receive
from workspace_store import checkpoints, facts, inbox, journal, memory, memory_index
from workspace_store.database import Database, to_json
from workspace_store.journal import Event
from workspace_store.memory_search import packed

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in MEMORY_TOOLS}


class Host:
    """A turn that says what it was given, with the real database."""

    def __init__(self, database: Database, owner: UUID, words: str = "") -> None:
        self.database, self.principal, self.turn = database, owner, uuid4()
        self.here, self.stopping, self.calls = Here(), asyncio.Event(), 0

        def begin(connection: Connection) -> None:
            message = receive(connection, owner, to_json({"text": words}))
            inbox.start(connection, message, self.turn, alone=False)

        database.write_now(begin)

    async def read(self, query: Callable[[Connection], Any]) -> Any:
        return await self.database.read(query)

    async def use(self, name: str, call: str = "", tool: Tool | None = None, **arguments: Any) -> ToolResult:
        """Run a tool as the turn does: its writes with its event, once."""
        self.calls += 1
        found = tool or TOOLS[name]
        host: Any = self
        result = await found.run(host, call or f"call-{self.calls}", found.read(arguments))

        def record(connection: Connection) -> None:
            events = [write.event for write in result.writes]
            journal.append(connection, self.principal, events, under=None, turn=self.turn)
            for write in result.writes:
                write.apply(connection)

        await self.database.write(record)
        return result

    async def notes(self, *, ever: bool = False) -> list[str]:
        found = await self.read(lambda c: memory.notes(c, self.principal, ever=ever))
        return [note.body for note in found]


@pytest.fixture
def host(database: Database) -> Host:
    return Host(database, person(database))


async def test_what_is_kept_is_found(host: Host) -> None:
    await host.use("remember", text="the heron nests by the mill")
    found = (await host.use("recall", query="where does the heron nest?")).text
    assert "the heron nests by the mill" in found


async def test_a_contradiction_supersedes_in_the_open_and_the_old_stays_readable(host: Host) -> None:
    await host.use("remember", text="the door code is 4711")
    said = (await host.use("remember", text="the door code is 9920")).text
    assert "4711" in said, "it is told what was replaced"
    assert await host.notes() == ["the door code is 9920"]
    assert await host.notes(ever=True) == ["the door code is 9920", "the door code is 4711"]
    assert "4711" not in (await host.use("recall", query="door code")).text


async def test_the_same_again_is_no_second_note(host: Host) -> None:
    await host.use("remember", text="the door code is 4711")
    assert "I know already" in (await host.use("remember", text="the door code is 4711")).text
    assert await host.notes() == ["the door code is 4711"]


async def test_a_tool_that_runs_again_after_a_crash_writes_one_note(host: Host) -> None:
    await host.use("remember", text="the door code is 4711")
    first = (await host.use("remember", "again", text="the door code is 9920")).text
    second = (await host.use("remember", "again", text="the door code is 9920")).text
    assert "I will remember" in first
    assert "I will remember" in second
    assert await host.notes() == ["the door code is 9920"]


async def test_a_model_says_what_a_note_takes_the_place_of(host: Host) -> None:
    await host.use("remember", text="Ann likes tea")
    (note,) = await host.read(lambda c: memory.notes(c, host.principal))
    refused = await host.use("remember", text="Ann likes coffee", supersedes=["00000000"])
    assert "00000000" in refused.text
    await host.use("remember", text="Ann likes coffee now", supersedes=[note.name], kind="preference", confidence=0.8)
    (now,) = await host.read(lambda c: memory.notes(c, host.principal))
    assert (now.body, now.kind, now.confidence) == ("Ann likes coffee now", "preference", 0.8)


@pytest.mark.parametrize(
    "text",
    [
        "my password is hunter2",
        "use sk-abcdefghijklmnopqrstuv for the API",
        "export GITHUB_TOKEN=abcdef",
        "my card is 4111 1111 1111 1111",
        "pay to DE89 3704 0044 0532 0130 00",
        "my SSN is 078-05-1120",
        "postgres://ann:s3cret@db/x",
    ],
)
async def test_secrets_are_not_kept_and_it_is_told(host: Host, text: str) -> None:
    result = await host.use("remember", text=text)
    assert "did not keep" in result.text
    assert result.writes == ()
    assert await host.notes() == []


async def test_another_ones_note_cannot_be_superseded_or_forgotten(host: Host) -> None:
    eve = Host(host.database, person(host.database))
    await host.use("remember", text="Ann likes tea")
    (note,) = await host.read(lambda c: memory.notes(c, host.principal))
    assert "no note" in (await eve.use("remember", text="x y z", supersedes=[note.name])).text
    assert (await eve.use("forget", ids=[note.id.hex])).text == texts.NOTHING_CALLED_SO
    assert (await eve.use("recall", id=note.name)).text == texts.NOTHING_CALLED_SO
    assert await host.notes() == ["Ann likes tea"]


async def test_a_turn_is_read_word_for_word_by_its_id(host: Host) -> None:
    turn = uuid4()
    said = [{"role": "user", "text": "where is the heron?"}, {"role": "assistant", "text": "by the mill " * 300}]

    def live(connection: Connection) -> list[int]:
        seq = journal.append(connection, host.principal, [Event("checkpoint.committed", {})], under=None, turn=turn)
        checkpoints.record_turn(connection, host.principal, seq, turn, said, 10)
        facts.write(connection, host.principal, seq, [("identifier", "R-2044")])
        return [seq]

    (seq,) = await host.database.write(live)
    assert "where is the heron?" in (await host.use("recall", id=f"turn {seq}")).text
    exact = (await host.use("recall", query="what of R-2044?")).text
    assert exact.startswith("- "), "a fact of a folded turn is looked up as it is written"
    assert turn.hex[:8] in exact
    before = (await host.use("recall", query="heron")).text
    assert turn.hex[:8] in before, "what was just said is found before it is in the index"
    await host.database.write(memory_index.index_turns)
    assert turn.hex[:8] in (await host.use("recall", query="heron")).text
    whole = (await host.use("recall", id=turn.hex[:8])).text
    assert "where is the heron?" in whole
    assert whole.count("by the mill") == 300


@pytest.mark.parametrize(
    "said",
    [
        # Far down in what a tool printed, further than a search reads.
        [{"role": "tool", "text": f"{'row ' * 900}job-77123 is done {'row ' * 900}"}],
        # A turn about memory alone, of which no search knows.
        [{"role": "assistant", "text": "", "data": {"calls": [
            {"id": "a", "name": "remember", "arguments": {"text": "the pump is job-77123"}}]}}],
        [{"role": "user", "text": "see below", "data": {"context": "forwarded: job-77123\nis late"}}],
    ],
)  # fmt: skip
async def test_what_is_looked_up_exactly_is_shown_where_it_stands(host: Host, said: list[dict[str, Any]]) -> None:
    def live(connection: Connection) -> None:
        turn = uuid4()
        seq = journal.append(connection, host.principal, [Event("checkpoint.committed", {})], under=None, turn=turn)
        checkpoints.record_turn(connection, host.principal, seq, turn, said, 10)
        facts.write(connection, host.principal, seq, [("identifier", "job-77123")])
        memory_index.index_turns(connection)

    await host.database.write(live)
    assert "job-77123" in (await host.use("recall", query="job-77123")).text


async def test_forgetting_is_asked_about_unless_the_person_named_it(host: Host) -> None:
    await host.use("remember", text="the heron nests by the mill")
    (note,) = await host.read(lambda c: memory.notes(c, host.principal))
    gate: Any = TOOLS["forget"].gate
    asked = await gate(host, {"ids": [note.name]})
    assert isinstance(asked, Ask)
    assert "heron" in asked.text
    named = Host(host.database, host.principal, f"please forget {note.name}")
    assert await gate(named, {"ids": [note.name]}) is None
    assert isinstance(await gate(named, {"ids": ["00000000"]}), Refuse)
    assert "Forgotten: 1 note" in (await named.use("forget", ids=[note.name])).text
    assert await host.notes() == []


class Fixed:
    """An embedder that knows two directions: animals, and all else."""

    model = "fixed"

    async def embed(self, texts: Any) -> list[bytes | None]:
        animal = ("heron", "bird", "otter")
        return [packed([1.0, 0.1] if any(word in text for word in animal) else [0.1, 1.0]) for text in texts]

    async def close(self) -> None:
        pass


async def test_meaning_finds_what_words_do_not(host: Host) -> None:
    await host.use("remember", text="the heron nests by the mill")
    await host.use("remember", text="the budget was signed")
    embedder = Fixed()
    assert (await host.use("recall", tool=recall(embedder), query="any bird?")).text == texts.NOTHING_FOUND
    entries = await host.read(lambda c: memory_index.bare(c, 10))
    vectors = await embedder.embed([words for _, _, words in entries])
    rows = [(entry, owner, vector) for (entry, owner, _), vector in zip(entries, vectors, strict=True)]
    await host.database.write(lambda c: memory_index.store_vectors(c, "fixed", rows))
    found = (await host.use("recall", tool=recall(embedder), query="any bird?")).text
    assert "heron" in found
    assert "budget" not in found
