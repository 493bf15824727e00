"""``remember``, ``recall`` and ``forget``: memory as an engine has it.

Nothing secret is kept, contradictions are resolved by superseding and said, and forgetting is asked about unless the
person named by its id what is to go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field
from sqlalchemy import Connection

from agent import contradictions, exact, own_words, texts
from agent.embeddings.embedder import Embedder, EmbedderAway
from agent.tool import Arguments, Ask, Refuse, Tool, ToolHost, ToolResult, Write
from workspace_store import (
    checkpoints,
    erasure,
    imported,
    inbox,
    memory,
    principal,
    sensitive,
)
from workspace_store.journal import Event
from workspace_store.memory import Note
from workspace_store.memory_search import Vector, has_vectors
from workspace_store.texts import forget_these, forgot

HITS = 6
HIT_CHARACTERS = 6000
WORD_FOR_WORD_CHARACTERS = 24_000
NOTE_CHARACTERS = 4000
TURN_NUMBER = re.compile(r"\(?(?:turn\s*)?#?(?P<seq>\d{1,7})\)?", re.IGNORECASE)


class RememberArguments(Arguments):
    text: str = Field(min_length=1, description="One fact, decision or preference, complete by itself.")
    kind: Literal["fact", "preference", "decision", "lesson", "runbook"] = Field("fact", description="What it is.")
    supersedes: list[str] = Field(default_factory=list, description="Ids of notes that this one takes the place of.")
    confidence: float = Field(1.0, ge=0, le=1, description="How sure this is; 1 for what the person said themselves.")


class RecallArguments(Arguments):
    query: str = Field("", description="Words to look for in notes, earlier turns and what was brought along.")
    id: str = Field("", description="Instead: the id of a hit, or the number of a turn, to read it word for word.")


class ForgetArguments(Arguments):
    ids: list[str] = Field(min_length=1, max_length=20, description="Ids of notes or turns, as `recall` shows them.")


async def _remember(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    body, key = str(arguments["text"]).strip(), f"{host.turn.hex}:{call_id}"
    held = sensitive.find(body)
    if held:
        return ToolResult(texts.not_kept(dict.fromkeys(one.what for one in held)))
    if len(body) > NOTE_CHARACTERS:
        return ToolResult(texts.note_too_long(NOTE_CHARACTERS))
    subject, identifier = contradictions.subject_of(body), memory.identifier_of(key)
    replaced, unknown, same = await host.read(
        lambda c: _before(c, host.principal, body, subject, arguments, identifier)
    )
    if unknown:
        return ToolResult(texts.no_such_notes(unknown))
    if same is not None:
        return ToolResult(texts.noted_already(same.body, same.name))
    confidence = float(arguments.get("confidence", 1.0))
    supersedes = [note.id for note in replaced]

    def write(connection: Connection) -> None:
        memory.write_note(
            connection, host.principal, key, body, host.turn, kind=str(arguments.get("kind", "fact")),
            source="told", confidence=confidence, subject=subject, supersedes=supersedes,
        )  # fmt: skip

    told = {"note": identifier.hex, "text": body, "supersedes": [one.hex for one in supersedes]}
    said = texts.remembered(body)
    if replaced:
        said += "\n\n" + texts.took_the_place([(note.name, note.body) for note in replaced])
    return ToolResult(said, writes=(Write(write, Event("memory.written", told)),))


def _before(
    connection: Connection, owner: UUID, body: str, subject: str, arguments: Mapping[str, Any], identifier: UUID
) -> tuple[list[Note], list[str], Note | None]:
    """The notes that this one takes the place of, the ids that name none, and the note that says the very same."""
    replaced, unknown = list[Note](), list[str]()
    for name in arguments.get("supersedes") or ():
        found = [note for note in memory.find(connection, owner, str(name)) if note.superseded_by is None]
        replaced += found[:1]
        unknown += [] if found else [str(name)]
    standing = memory.of_subject(connection, owner, subject)
    same = next((note for note in standing if note.body == body and note.id != identifier), None)
    replaced += [note for note in contradictions.contradicted(body, standing) if note not in replaced]
    # Run again after a crash, it is there already.
    return [note for note in replaced if note.id != identifier], unknown, same


async def _recall(host: ToolHost, embedder: Embedder | None, arguments: Mapping[str, Any]) -> ToolResult:
    name, query = str(arguments.get("id", "")).strip(), str(arguments.get("query", "")).strip()
    if name:
        whole = await host.read(lambda connection: word_for_word(connection, host.principal, name))
        return ToolResult(whole or texts.NOTHING_CALLED_SO)
    if not query:
        return ToolResult(texts.NOTHING_TO_RECALL)
    if query.lower() in exact.PROMISES:
        promised = await host.read(lambda connection: exact.promises(connection, host.principal))
        return ToolResult("\n".join(f"- {line}" for line in promised) or texts.NOTHING_FOUND)
    meaning = await _meaning(host, embedder, query)
    hits = await host.read(lambda connection: _found(connection, host.principal, query, meaning))
    if not hits:
        return ToolResult(texts.NOTHING_FOUND)
    fitting = memory.within(hits, HIT_CHARACTERS)
    lines = [texts.hit(hit.kind, _short(hit.ref), hit.body, _day(hit.at)) for hit in fitting]
    return ToolResult("\n".join(lines))


def _found(connection: Connection, owner: UUID, query: str, meaning: Vector | None) -> list[memory.Hit]:
    """Turns that hold exactly what was asked for, then what a search finds."""
    exactly = [hit for value in exact.values(query) for hit in exact.hits(connection, owner, value)]
    found = memory.search(connection, owner, query, HITS, meaning=meaning)
    known = {hit.ref for hit in exactly}
    return [*{hit.ref: hit for hit in exactly}.values(), *(hit for hit in found if hit.ref not in known)][:HITS]


async def _meaning(host: ToolHost, embedder: Embedder | None, query: str) -> Vector | None:
    """What the query means, where there is something to compare it with and the embedder can be asked."""
    if embedder is None or not await host.read(lambda c: has_vectors(c, host.principal, embedder.model)):
        return None
    try:
        (vector,) = await embedder.embed([query])
    except EmbedderAway:
        return None
    return Vector(embedder.model, vector) if vector is not None else None


def word_for_word(connection: Connection, owner: UUID, name: str) -> str:
    """A note, a turn or imported words as they were said; empty where nothing is called so."""
    scope = principal.scope(connection, owner)
    number = TURN_NUMBER.fullmatch(name)
    turn = checkpoints.turn_at(connection, scope, int(number["seq"])) if number else None
    name = turn.hex if turn is not None else name
    for target in erasure.named(connection, owner, name)[:1]:
        if target.kind == "note":
            (note,) = memory.find(connection, owner, target.id.hex)
            return texts.hit("note", note.name, note.body, _day(note.at))
        if target.kind == "turn":
            messages = checkpoints.messages_of(connection, scope, target.id)
            words = "\n\n".join(texts.said(str(one["role"]), str(one.get("text", ""))) for one in messages)
        else:
            said = imported.around(connection, scope, target.id)
            words = "\n\n".join(texts.said(one.role, one.text, _day(one.at)) for one in said)
        return f"{_day(target.at)}\n\n{words}"[:WORD_FOR_WORD_CHARACTERS]
    return ""


async def _forget(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
    targets = await host.read(lambda connection: _targets(connection, host.principal, arguments["ids"]))
    if not targets:
        return ToolResult(texts.NOTHING_CALLED_SO)
    gone = erasure.Forgotten(*(sum(t.kind == kind for t in targets) for kind in ("note", "turn", "imported")))

    def erase(connection: Connection) -> None:
        erasure.forget(connection, host.principal, targets, by="the agent", told=False)

    return ToolResult(forgot(gone.to_json()), writes=(Write(erase, erasure.event(gone, "the agent")),))


def _targets(connection: Connection, owner: UUID, names: Sequence[str]) -> list[erasure.Target]:
    found = [target for name in names for target in erasure.named(connection, owner, str(name))[:1]]
    return erasure.with_origins(connection, owner, found)


async def _may_forget(host: ToolHost, arguments: Mapping[str, Any]) -> Ask | Refuse | None:
    """A person's own message that names the ids is their word; anything else is asked about."""
    names = [str(name).lower().strip("`") for name in arguments["ids"]]
    targets, said = await host.read(lambda c: (_targets(c, host.principal, names), _own_words(c, host.turn)))
    if not targets:
        return Refuse(texts.NOTHING_CALLED_SO)
    if all(name in said for name in names):
        return None
    return Ask(forget_these(targets))


def _own_words(connection: Connection, turn: UUID) -> str:
    rows = [row for row in inbox.taken_by(connection, turn) if row.kind == "message"]
    return "\n".join(inbox.words_of(row) for row in rows).lower()


def _short(ref: str) -> str:
    return ref.replace("-", "")[: memory.NAMED_BY]


def _day(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d}"


def recall(embedder: Embedder | None = None) -> Tool:
    """The tool that searches, by meaning too where there is an embedder."""

    async def run(host: ToolHost, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        return await _recall(host, embedder, arguments)

    return Tool(
        "recall",
        "Find notes, earlier turns and words brought along; or read one of them word for word by its id.",
        "pure",
        run,
        arguments=RecallArguments,
    )


async def _may_prefer(host: ToolHost, arguments: Mapping[str, Any]) -> Ask | None:
    """A preference or decision stands for the person: it takes their own words of this turn, or their approval."""
    if arguments.get("kind") not in ("preference", "decision"):
        return None
    said = await host.read(lambda connection: own_words.of_turn(connection, host.principal, host.turn))
    text = str(arguments["text"])
    return None if own_words.cover(said, text) else Ask(texts.may_prefer(text))


MEMORY_TOOLS = (
    Tool("remember", "Keep a note in memory. Never secrets.", "idempotent", _remember, arguments=RememberArguments,
         gate=_may_prefer),
    recall(),
    Tool("forget", "Forget notes or turns.", "idempotent", _forget, arguments=ForgetArguments, gate=_may_forget),
)  # fmt: skip
