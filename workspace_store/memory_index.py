"""What can be found in memory: entries of notes, turns and imported words, their full text and their vectors.

An entry is indexed with the note it is of; those of turns are made after the reply, from records that say themselves
that they are not searchable yet, and vectors later still, for entries that have none. Secrets are not indexed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    bindparam,
    delete,
    func,
    select,
    text,
    update,
)
from sqlmodel import Field, SQLModel

from workspace_store import checkpoints, sensitive
from workspace_store.checkpoints import turn_record
from workspace_store.database import storable, table

SEARCHED_CHARACTERS = 100_000
"""Of one text, on PostgreSQL, whose search vectors hold 1 MB; the rest is kept and not searched."""
PIECE_CHARACTERS = 1500
"""Of a turn in one entry: about as much as an embedding model reads."""
PIECES = 20
OUTPUT_CHARACTERS = 1000
"""Of a tool's output in a turn, head first."""
ABOUT_MEMORY = frozenset({"remember", "recall", "forget"})
"""Tools: a turn of theirs alone says nothing that the notes themselves do not."""

# Writing without spaces between words: each character is found by itself, and words as rows of them.
UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_BIG_ID = BigInteger().with_variant(Integer, "sqlite")


class MemoryEntryRow(SQLModel, table=True):
    """``kind``: ``note``, ``turn`` or ``imported``; ``ref``: the id of it. ``embedded``: whether its vector was asked
    for, which some texts do not have."""

    __tablename__ = "memory_entry"
    __table_args__ = (
        Index("memory_entry_of", "principal", "ref"),
        Index("memory_entry_bare", "id", sqlite_where=text("NOT embedded"), postgresql_where=text("NOT embedded")),
    )

    id: int = Field(sa_column=Column(_BIG_ID, primary_key=True, autoincrement=True))
    principal: UUID
    kind: str
    ref: str
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    embedded: bool = False


class MemoryVectorRow(SQLModel, table=True):
    """``vector``: IEEE 754 half precision, little-endian, of length one."""

    __tablename__ = "memory_vector"
    __table_args__ = (Index("memory_vector_of", "principal", "model"), Index("memory_vector_model", "model"))

    entry: int = Field(sa_column=Column(_BIG_ID, primary_key=True, autoincrement=False))
    principal: UUID
    model: str
    vector: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


entry = table(MemoryEntryRow)
vector = table(MemoryVectorRow)

# The words' owner and kind are words to look up too: the cost does not grow with what others have said.
SQLITE_TABLE = (
    """CREATE VIRTUAL TABLE memory_search USING fts5(
        body, whose, spread, tokenize = "unicode61 remove_diacritics 2")""",
)
# PostgreSQL's own parser takes a path or an address for one word; the words it gets are ours (``plain``).
POSTGRESQL_TABLE = (
    """CREATE TABLE memory_search (
        entry bigint PRIMARY KEY, body text NOT NULL, words tsvector NOT NULL)""",
    "CREATE INDEX memory_search_words ON memory_search USING gin (words)",
)


@dataclass(frozen=True)
class Item:
    """Something to be found. ``kind`` and ``ref`` as in ``MemoryEntryRow``."""

    owner: UUID
    kind: str
    ref: str
    body: str
    at: int


def index(connection: Connection, owner: UUID, kind: str, ref: str, body: str, at: int) -> None:
    """Make ``body`` findable for its owner."""
    index_all(connection, [Item(owner, kind, ref, body, at)])


def index_all(connection: Connection, items: Sequence[Item]) -> None:
    """Make many findable at once."""
    if not items:
        return
    rows = [{"principal": i.owner, "kind": i.kind, "ref": i.ref, "at": i.at, "embedded": False} for i in items]
    made = connection.execute(entry.insert().returning(entry.c.id, sort_by_parameter_order=True), rows)
    ids = [int(row.id) for row in made]
    bodies = [storable(sensitive.redacted(item.body)) for item in items]
    _write_words(connection, [(one, i.owner, i.kind, body) for one, i, body in zip(ids, items, bodies, strict=True)])


def _write_words(connection: Connection, found: Sequence[tuple[int, UUID, str, str]]) -> None:
    """(entry, owner, kind, body) into the full-text index."""
    if connection.dialect.name == "sqlite":
        sql = "INSERT INTO memory_search (rowid, body, whose, spread) VALUES (:entry, :body, :whose, :spread)"
    else:
        sql = """INSERT INTO memory_search (entry, body, words) VALUES (:entry, :body, to_tsvector('simple', :words))"""
    values = []
    for identifier, owner, kind, body in found:
        if connection.dialect.name == "sqlite":
            more = {"whose": f"{owner_word(owner)} {kind_word(kind)}", "spread": spread(body)}
        else:
            more = {"words": f"{owner_word(owner)} {kind_word(kind)} {plain(body)}"}
        values.append({"entry": identifier, "body": body, **more})
    connection.execute(text(sql), values)


def copy(source: Connection, target: Connection) -> None:
    """Make the index of another database, which has the same entries, from the words of this one."""
    key = "rowid" if source.dialect.name == "sqlite" else "entry"
    sql = f"""SELECT e.id, e.principal, e.kind, s.body FROM memory_entry e JOIN memory_search s ON s.{key} = e.id
              WHERE e.id > :after ORDER BY e.id LIMIT 500"""
    typed = text(sql).columns(id=entry.c.id.type, principal=entry.c.principal.type)
    after = 0
    while rows := source.execute(typed, {"after": after}).all():
        _write_words(target, [(row.id, row.principal, row.kind, row.body) for row in rows])
        after = rows[-1].id


def owner_word(owner: UUID) -> str:
    return f"owner{owner.hex}"


def kind_word(kind: str) -> str:
    return f"kind{kind}"


def spread(body: str) -> str:
    """The characters of what is written without spaces, one by one; empty for any other text."""
    return " ".join(UNSPACED.findall(body)) if UNSPACED.search(body) else ""


def plain(body: str) -> str:
    """The words of a text as SQLite's unicode61 sees them: without case, accents and what stands between them."""
    spaced = body[:SEARCHED_CHARACTERS].lower()
    if not spaced.isascii():
        bare = BEYOND_ASCII.sub(_uncombined, unicodedata.normalize("NFD", spaced))
        spaced = UNSPACED.sub(lambda match: f" {match[0]} ", bare)
    return " ".join(re.findall(r"[^\W_]+", spaced))[:SEARCHED_CHARACTERS]


def _uncombined(character: re.Match[str]) -> str:
    return "" if unicodedata.combining(character[0]) else character[0]


def remove(connection: Connection, owners: Sequence[UUID], ref: str | None = None) -> int:
    """Take what is findable of somebody out of the index, with its vectors; only of one thing where ``ref`` is given.

    How many entries that was. The words are gone from the index's pages too.
    """
    where = [entry.c.principal.in_(owners), *([entry.c.ref == ref] if ref is not None else [])]
    ids = [int(row.id) for row in connection.execute(select(entry.c.id).where(*where))]
    key = "rowid" if connection.dialect.name == "sqlite" else "entry"
    gone = text(f"DELETE FROM memory_search WHERE {key} = :entry")
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        connection.execute(gone, [{"entry": one} for one in some])
        connection.execute(delete(vector).where(vector.c.entry.in_(some)))
        connection.execute(delete(entry).where(entry.c.id.in_(some)))
    return len(ids)


def scour(connection: Connection) -> None:
    """After a forgetting: what was deleted stays in the index's older segments until they are joined."""
    if connection.dialect.name == "sqlite":
        connection.execute(text("INSERT INTO memory_search(memory_search) VALUES ('optimize')"))


# Turns become searchable after their replies

_UNSEARCHABLE = text("NOT turn_record.searchable")
_ANY_TURN = select(turn_record.c.seq).where(_UNSEARCHABLE).limit(1)
_FRESH = (
    select(turn_record.c.principal, turn_record.c.seq, turn_record.c.turn, turn_record.c.messages, turn_record.c.at)
    .where(turn_record.c.principal.in_(bindparam("scope", expanding=True)), _UNSEARCHABLE)
    .order_by(turn_record.c.seq.desc())
    .limit(bindparam("most"))
)
_NEXT = (
    select(turn_record.c.principal, turn_record.c.seq, turn_record.c.turn, turn_record.c.messages, turn_record.c.at)
    .where(_UNSEARCHABLE)
    .order_by(turn_record.c.principal, turn_record.c.seq)
    .limit(bindparam("most"))
    # Another runner may be at it as well: what it has in hand is left to it.
    .with_for_update(skip_locked=True)
)
_SEARCHABLE = (
    update(turn_record)
    .where(turn_record.c.principal == bindparam("of"), turn_record.c.seq == bindparam("at_seq"))
    .values(searchable=True)
)
BATCH = 5
"""Turns in one transaction: a few milliseconds, in which no message is accepted."""


def any_turn_due(connection: Connection) -> bool:
    """Whether a turn is not searchable yet: one look at a partial index."""
    return connection.execute(_ANY_TURN).first() is not None


def index_turns(connection: Connection, most: int = BATCH) -> list[UUID]:
    """Make the next turns searchable; whose they are."""
    rows = connection.execute(_NEXT, {"most": most}).all()
    items = []
    for row in rows:
        words = pieces(turn_words(checkpoints.messages_in(connection, row)))
        items += [Item(row.principal, "turn", str(row.turn), piece, row.at) for piece in words]
    if rows:
        connection.execute(_SEARCHABLE, [{"of": row.principal, "at_seq": row.seq} for row in rows])
    index_all(connection, items)
    return [row.principal for row in rows]


def fresh_turns(connection: Connection, scope: Sequence[UUID], most: int) -> list[tuple[str, str, int]]:
    """(turn, words, time) of the newest turns that are not searchable yet, newest first."""
    rows = connection.execute(_FRESH, {"scope": scope, "most": most})
    found = [(str(row.turn), turn_words(checkpoints.messages_in(connection, row)), int(row.at)) for row in rows]
    return [one for one in found if one[1]]


def turn_words(messages: Sequence[dict[str, Any]]) -> str:
    """What was said and done in a turn, as it is searched; empty for one that was about memory alone."""
    called = [call["name"] for said in messages for call in said.get("data", {}).get("calls", ())]
    if called and ABOUT_MEMORY.issuperset(called):
        return ""
    lines = []
    for said in messages:
        words = str(said.get("text", ""))
        lines.append(words[:OUTPUT_CHARACTERS] if said.get("role") == "tool" else words)
        for call in said.get("data", {}).get("calls", ()):
            lines += [value for value in call["arguments"].values() if isinstance(value, str)]
    # An answer that only shows a tool's output says it once.
    return "\n".join(dict.fromkeys(filter(None, (line.strip() for line in lines))))


def pieces(words: str) -> list[str]:
    """A long text in pieces, cut between lines or words where there are any."""
    found: list[str] = []
    while words and len(found) < PIECES:
        if len(words) <= PIECE_CHARACTERS:
            found.append(words)
            break
        cut = max(words.rfind("\n", PIECE_CHARACTERS // 2, PIECE_CHARACTERS), 0)
        cut = cut or max(words.rfind(" ", PIECE_CHARACTERS // 2, PIECE_CHARACTERS), 0) or PIECE_CHARACTERS
        found.append(words[:cut].strip())
        words = words[cut:].strip()
    return found


# Vectors are computed later still


def bare(connection: Connection, most: int) -> list[tuple[int, UUID, str]]:
    """(entry, owner, words) of the next entries that have no vector."""
    key = "rowid" if connection.dialect.name == "sqlite" else "entry"
    sql = f"""SELECT e.id, e.principal, s.body FROM memory_entry e JOIN memory_search s ON s.{key} = e.id
              WHERE NOT e.embedded ORDER BY e.id LIMIT :most"""
    columns = text(sql).columns(entry.c.id, entry.c.principal)
    return [(int(row[0]), row[1], str(row[2])) for row in connection.execute(columns, {"most": most})]


def store_vectors(connection: Connection, model: str, found: Sequence[tuple[int, UUID, bytes | None]]) -> None:
    """Keep vectors of entries that are still there; None: that text has none, and is not asked for again."""
    ids = [identifier for identifier, _, _ in found]
    connection.execute(update(entry).where(entry.c.id.in_(ids)).values(embedded=True))
    there = {int(row.id) for row in connection.execute(select(entry.c.id).where(entry.c.id.in_(ids)))}
    connection.execute(delete(vector).where(vector.c.entry.in_(ids)))
    rows = [
        {"entry": identifier, "principal": owner, "model": model, "vector": data}
        for identifier, owner, data in found
        if data is not None and identifier in there
    ]
    if rows:
        connection.execute(vector.insert(), rows)


def has_vectors_of_others(connection: Connection, model: str) -> bool:
    """Whether there are vectors that another model made: two looks at an index."""
    names = (func.min(vector.c.model), func.max(vector.c.model))
    return any(connection.execute(select(name)).scalar() not in (None, model) for name in names)


def drop_vectors_of_others(connection: Connection, model: str, most: int = 500) -> int:
    """Forget some of the vectors that another model made, so that this one makes them anew; how many."""
    found = connection.execute(select(vector.c.entry).where(vector.c.model != model).limit(most))
    ids = [int(row.entry) for row in found]
    connection.execute(delete(vector).where(vector.c.entry.in_(ids)))
    connection.execute(update(entry).where(entry.c.id.in_(ids)).values(embedded=False))
    return len(ids)


def models_of(connection: Connection, scope: Sequence[UUID]) -> list[str]:
    """The models that have made vectors of somebody's words."""
    found = select(vector.c.model).where(vector.c.principal.in_(scope)).distinct()
    return [row.model for row in connection.execute(found)]


def counts(connection: Connection, owner: UUID) -> dict[str, int]:
    """How many entries there are of each kind, and ``vectors``."""
    kinds = select(entry.c.kind, func.count()).where(entry.c.principal == owner).group_by(entry.c.kind)
    found = {str(kind): int(count) for kind, count in connection.execute(kinds)}
    vectors = select(func.count()).where(vector.c.principal == owner)
    return {**found, "vectors": int(connection.execute(vectors).scalar_one())}
