"""Looking back at a session: decisions, preferences and lessons become notes; transcripts do not.

Only a person's own words make a preference or a decision: what tools, files and pages said is never read here. A model
must quote the words each note rests on, and what it cannot quote is dropped. Without a model, sentences that say by
their form what they are are kept as they were said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from agent import contradictions, texts
from agent.engine import Engine, EngineError, Step
from agent.progress import SILENT
from agent.trajectory import Context, Said
from workspace_store import journal, memory, memory_sessions, sensitive, spending
from workspace_store.journal import Event
from workspace_store.memory import Note
from workspace_store.memory_index import plain
from workspace_store.memory_sessions import Session

ASKED = "session"
MOST_NOTES = 12
NOTE_CHARACTERS = 400
SENTENCE_CHARACTERS = 300
TRANSCRIPT_CHARACTERS = 24_000
STANDING_NOTES = 40
KINDS = ("preference", "decision", "lesson", "fact")

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("decision", re.compile(
        r"\b(?:decision|entscheidung)\s*:"
        r"|\b(?:we|i|we've|i've|we have|i have)\s+(?:decided|agreed|settled|chose|opted)\b"
        r"|\b(?:we|let's|let us|we'll|we will|i'll|i will)\s+(?:go with|use|stick (?:to|with)|take|switch to)\b"
        r"|\bwir (?:nehmen|verwenden|haben uns (?:\w+ ){0,4}entschieden)\b", re.IGNORECASE)),
    ("preference", re.compile(
        r"\bI\s+(?:really\s+)?(?:prefer|always|never|like|love|hate|dislike|can't stand|don't (?:like|want))\b"
        r"|\b(?:please|from now on,?)\s+(?:always|never|don't|do not|use|write|answer|call)\b|\bfrom now on\b"
        r"|\bcall me\s+\w+|\bmy favou?rite\b|\bich (?:mag|bevorzuge|hasse|möchte (?:immer|nie))\b"
        r"|\bbitte (?:immer|nie)\b|\bab jetzt\b", re.IGNORECASE)),
    ("lesson", re.compile(
        r"\b(?:lesson|lessons learned|note to self)\s*:|\bnext time\b|\b(?:it )?turn(?:s|ed) out\b|\bI learned that\b"
        r"|\bthe (?:real |root )?(?:cause|problem|fix|trick|culprit) (?:was|is)\b|\bbeim nächsten mal\b",
        re.IGNORECASE)),
)  # fmt: skip
SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]*)*[.!?]*")
NOT_TALK = re.compile(r"\s*(?:[$!/>]|remember\b|recall\b|```)", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """A note to be written."""

    kind: str
    body: str
    turn: UUID | None
    confidence: float
    supersedes: tuple[str, ...] = ()


def own_words(session: Session) -> list[tuple[UUID, str]]:
    """(turn, words) of what people themselves said, without commands, quotes and code."""
    return [
        (turn, str(said.get("text", "")))
        for _, turn, messages in session.turns
        for said in messages
        if said.get("role") == "user" and not said.get("data", {}).get("kind")
    ]


def extract(session: Session) -> list[Finding]:
    """What says by its form that it is a decision, a preference or a lesson. Needs no model."""
    found: dict[str, Finding] = {}
    for turn, words in own_words(session):
        for sentence in _sentences(words):
            kind = next((kind for kind, pattern in PATTERNS if pattern.search(sentence)), None)
            if kind is not None:
                found.setdefault(sentence.lower(), Finding(kind, sentence, turn, 0.7))
    return list(found.values())[-MOST_NOTES:]


def _sentences(words: str) -> Iterator[str]:
    quoted = re.sub(r"```.*?(?:```|\Z)", "", words[:TRANSCRIPT_CHARACTERS], flags=re.DOTALL)
    for line in quoted.splitlines():
        if NOT_TALK.match(line):
            continue
        for match in SENTENCE.finditer(line):
            sentence = " ".join(match[0].split())
            if 8 <= len(sentence) <= SENTENCE_CHARACTERS and not sentence.endswith("?"):
                yield sentence


async def ask(engine: Engine, session: Session, standing: Sequence[Note]) -> tuple[list[Finding], Step]:
    """What a model finds in a session. Raises EngineError; ValueError for an answer of another form."""
    said = Said(
        "user", texts.session_to_look_back_at(_transcript(session), [(n.name, n.body) for n in standing]), ASKED
    )
    step = await engine.step(Context(texts.LOOK_BACK, [], [], [], [said]), SILENT)
    return list(read(step.replies.get(ASKED, ""), session)), step


def _transcript(session: Session) -> str:
    """What was said on both sides; nothing of tools."""
    lines = [
        f"{said['role']}: {str(said.get('text', ''))[:2000]}"
        for _, _, messages in session.turns
        for said in messages
        if said.get("role") in ("user", "assistant") and str(said.get("text", "")).strip()
    ]
    return sensitive.redacted("\n".join(lines)[-TRANSCRIPT_CHARACTERS:])


def read(answer: str, session: Session) -> Iterator[Finding]:
    """The notes of a model's answer that rest on words which were really said. Raises ValueError."""
    start, end = answer.find("["), answer.rfind("]")
    if start < 0 or end < start:
        raise ValueError("the answer holds no list")
    try:
        rows: Any = json.loads(answer[start : end + 1])
    except RecursionError as error:
        raise ValueError("the answer's lists have no end") from error
    people = [(turn, plain(words)) for turn, words in own_words(session)]
    everybody = people + [
        (turn, plain(str(said.get("text", ""))))
        for _, turn, messages in session.turns
        for said in messages
        if said.get("role") == "assistant"
    ]
    for row in [row for row in rows if isinstance(row, dict)][:MOST_NOTES]:
        kind, body, quote = (str(row.get(name, "")).strip() for name in ("kind", "text", "quote"))
        # What an agent concluded may be a lesson; what a person wants, they must have said.
        where = next(
            (turn for turn, words in (everybody if kind == "lesson" else people) if _holds(words, quote)), None
        )
        if kind in KINDS and 0 < len(body) <= NOTE_CHARACTERS and where is not None:
            replaced = row.get("supersedes") if isinstance(row.get("supersedes"), list) else []
            yield Finding(kind, body, where, 0.8, tuple(str(name) for name in replaced or ()))


def _holds(words: str, quote: str) -> bool:
    wanted = plain(quote)
    return len(wanted) >= 8 and wanted in words


def write(connection: Connection, taken: Session, found: Iterable[Finding], paid: Iterable[Step] = ()) -> list[UUID]:
    """Write what was found, each note with its event, once; nothing where another looked back meanwhile.

    What was asked is paid for either way.
    """
    owner, written = taken.principal, list[UUID]()
    for step in paid:
        if step.usage is not None:
            spending.add(connection, owner, step.model, step.usage)
    if not memory_sessions.looked_back(connection, taken):
        return []
    for number, one in enumerate(found):
        if sensitive.find(one.body):
            continue
        subject = contradictions.subject_of(one.body)
        standing = memory.notes(connection, owner, 500)
        if any(note.body.lower() == one.body.lower() for note in standing):
            continue
        replaced = contradictions.contradicted(one.body, memory.of_subject(connection, owner, subject))
        named = [note for name in one.supersedes for note in memory.find(connection, owner, name)]
        key = f"session:{owner.hex}:{taken.turns[-1][0]}:{number}"
        supersedes = list(dict.fromkeys(note.id for note in (*replaced, *named) if note.superseded_by is None))
        body = {"note": memory.identifier_of(key).hex, "text": one.body, "source": "session",
                "supersedes": [each.hex for each in supersedes]}  # fmt: skip
        seq = journal.append(connection, owner, [Event("memory.written", body)], under=None)
        note = memory.write_note(
            connection, owner, key, one.body, one.turn, kind=one.kind, source="session",
            confidence=one.confidence, subject=subject, supersedes=supersedes, journaled=seq,
        )  # fmt: skip
        written.append(note)
    return written


async def find(
    engine: Engine, thinks: bool, session: Session, standing: Sequence[Note]
) -> tuple[list[Finding], list[Step]]:
    """By the engine where it thinks and can be asked, else by form. What was asked is to be paid for."""
    if not thinks or not own_words(session):
        return extract(session), []
    try:
        found, step = await ask(engine, session, standing)
    except (EngineError, ValueError):
        return extract(session), []
    return found, [step]
