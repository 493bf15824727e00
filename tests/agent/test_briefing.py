"""The self-briefing: what was done, is planned, promised, waits and has changed, from rows alone."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from sqlalchemy import Connection

from agent import briefing
from agent.trajectory import Said
from tests.workspace_store.people import person
from workspace_store import checkpoints, commitments, journal, memory
from workspace_store.database import Database
from workspace_store.journal import Event


def test_who_comes_back_reads_what_was_done_promised_and_changed(sqlite: Database) -> None:
    owner = person(sqlite)

    def live(connection: Connection) -> None:
        said = [Said("user", "build the report", message="m"), Said("assistant", "It is in /workspace/report.pdf.")]
        seq = journal.append(connection, owner, [Event("checkpoint.committed", {})], under=None, turn=uuid4())
        checkpoints.record_turn(connection, owner, seq, uuid4(), [item.to_json() for item in said], 20)
        commitments.make(connection, owner, "key", "send the report on Friday")

    def meanwhile(connection: Connection) -> None:
        ended = {"task": 3, "argv": ["make", "all"], "exit_code": 2}
        events = [Event("task.ended", ended), Event("sandbox.slept", {"files_changed": 4})]
        journal.append(connection, owner, events, under=None)
        memory.write_note(connection, owner, "k", "the client is Acme", None)

    sqlite.write_now(live)
    before = sqlite.read_now(lambda connection: briefing.read(connection, owner))
    assert before.changed == []
    sqlite.write_now(meanwhile)
    found = sqlite.read_now(lambda connection: briefing.read(connection, owner))
    assert list(found.done) == ["asked: build the report", "answered: It is in /workspace/report.pdf."]
    assert list(found.promised) == ["send the report on Friday"]
    assert list(found.changed) == [
        "background task 3 ended with 2: make all",
        "4 files changed while no turn ran",
        "noted: the client is Acme",
    ]
    # To the agent the last turn is told again only after a rest: until then it is before its eyes.
    assert not any("asked:" in line for line in found.lines(whole=found.rested))
    rested = replace(found, now=(found.done_at or 0) + 3 * 86400 * 1_000_000)
    lines = list(rested.lines(whole=rested.rested))
    assert lines[0] == "The last turn ended 3 days ago."
    assert "Done last: asked: build the report" in lines


def test_nothing_is_said_of_nothing(sqlite: Database) -> None:
    owner = person(sqlite)
    found = sqlite.read_now(lambda connection: briefing.read(connection, owner))
    assert found.shown() == []
    assert list(found.lines(whole=True)) == []
