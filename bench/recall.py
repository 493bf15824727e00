"""Memory questions over 500 turns: how often what answers them is among the first five hits, by words and with vectors.

Forty facts are told among other talk about the same things, each asked for twice: in its own words and in others.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import Connection

from agent.embeddings import minilm
from agent.embeddings.embedder import Embedder
from agent.embeddings.local import LocalEmbedder
from bench.table import Row, show
from router.librarian import Librarian
from workspace_store import checkpoints, journal, memory, memory_index, principal, schema
from workspace_store.database import Database
from workspace_store.journal import Event
from workspace_store.memory_search import Vector

TURNS = 500
FIRST = 5
LIMITS = {
    "by words, in its own": 90,
    "by words, in others": 15,
    "with vectors, in its own": 95,
    "with vectors, in others": 80,
}
"""Per cent of questions that must be answered."""

FACTS = Path(__file__).with_name("recall_facts.tsv")
"""What is told, asked in its own words, asked in others; a tab between them."""

SUBJECTS = (
    "the office door", "my sister", "the shop's server", "peanuts", "the Meyer invoice", "the backups", "the rent",
    "Tom", "the parser", "the car", "the dentist", "the deploy", "coffee", "the board", "the boiler", "my passport",
    "the API", "the cat", "the parcels", "the logo", "the cake", "the warehouse", "support", "running", "the tests",
    "the fair", "the train", "meetings", "the greenhouse", "the insurance", "music", "the network", "Felix",
    "the Orbit contract", "parking", "the chairs", "the outage", "Lena", "passwords", "the piano",
)  # fmt: skip
TALK = (
    "Can you remind me later to think about {}?", "I had a long call about {} today, nothing new came of it.",
    "Please look whether anything was written about {} this week.", "Let us talk about {} tomorrow, I am tired.",
    "Somebody asked about {} again; I said that we will see.", "What would you do about {} in my place?",
    "I read an article that mentioned {}, it was rather dull.", "Put {} on the list of things to discuss.",
    "There was a funny story about {} in the mail.", "I am not sure about {} yet, let it rest.",
)  # fmt: skip
ANSWERS = (
    "Noted.",
    "I will keep it in mind.",
    "There is nothing about that so far.",
    "Gladly, tomorrow then.",
    "I see.",
)


@dataclass(frozen=True)
class Question:
    words: str
    own: bool
    turn: UUID


def live(database: Database, owner: UUID) -> list[Question]:
    """Turns with the facts among them, always the same ones."""
    chance, questions = random.Random(11), list[Question]()
    facts = [line.split("\t") for line in FACTS.read_text("utf-8").splitlines()]
    places = dict(zip(chance.sample(range(TURNS), len(facts)), facts, strict=True))
    for number in range(TURNS):
        turn = uuid4()
        said = chance.choice(TALK).format(chance.choice(SUBJECTS))
        if number in places:
            told, own, other = places[number]
            said = told
            questions += [Question(own, True, turn), Question(other, False, turn)]
        messages = [{"role": "user", "text": said}, {"role": "assistant", "text": chance.choice(ANSWERS)}]

        def record(connection: Connection, turn: UUID = turn, messages: list[dict[str, str]] = messages) -> None:
            seq = journal.append(connection, owner, [Event("checkpoint.committed", {})], under=None, turn=turn)
            checkpoints.record_turn(connection, owner, seq, turn, messages, 20)

        database.write_now(record)
    while database.write_now(memory_index.index_turns):
        pass
    return questions


async def _embed(database: Database, embedder: Embedder, questions: Sequence[Question]) -> list[Vector | None]:
    librarian = Librarian(database, embedder)
    while await librarian.catch_up():
        pass
    found = await embedder.embed([question.words for question in questions])
    await embedder.close()
    return [Vector(embedder.model, one) if one is not None else None for one in found]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="nightporter-bench-") as folder:
        url = f"sqlite:///{folder}/nightporter.db"
        schema.upgrade(url)
        database, owner = Database(url), uuid4()
        database.write_now(lambda connection: principal.create(connection, owner, "user"))
        questions = live(database, owner)
        rows = _ask(database, owner, questions, [None] * len(questions), "by words")
        if minilm.archive() is not None:
            meanings = asyncio.run(_embed(database, LocalEmbedder(Path(folder) / "models"), questions))
            rows += _ask(database, owner, questions, meanings, "with vectors")
        database.close()
    return rows


def _ask(
    database: Database, owner: UUID, questions: Sequence[Question], meanings: Sequence[Vector | None], how: str
) -> list[Row]:
    found: dict[bool, list[bool]] = {True: [], False: []}
    taken = []
    for question, meaning in zip(questions, meanings, strict=True):
        start = time.perf_counter()
        search = partial(memory.search, owner=owner, query=question.words, limit=FIRST, meaning=meaning)
        hits = database.read_now(search)
        taken.append((time.perf_counter() - start) * 1000)
        found[question.own].append(str(question.turn) in [hit.ref for hit in hits])
    rows = []
    for own, answered in found.items():
        name = f"{how}, in {'its own' if own else 'others'}"
        missed = 100 * (1 - sum(answered) / len(answered))
        rows.append(Row(f"not in the first {FIRST}: {name}", [missed], 100 - LIMITS[name], "%"))
    rows.append(Row(f"a search {how}", taken, 50, "ms"))
    return rows


if __name__ == "__main__":
    show(measure())
