"""What a person reads of memory: notes, what a search finds, what is forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from workspace_store.erasure import Target
from workspace_store.memory import NAMED_BY, Hit, Note
from workspace_store.texts import day, target

NO_NOTES = "I keep no notes for you yet."
NO_NOTES_OF_ROOM = "I keep no notes for this room yet."
NOTHING_FOUND = "I find nothing about that in memory."
FORGET_WHAT = (
    "Say what: `/forget ID` forgets what `/memory` shows under that id, `/forget WORDS` looks for words and asks you "
    "before anything goes."
)
FORGET_IS_FOR_MEMBERS = "Only members can make me forget what belongs to this room."
SHOWN_CHARACTERS = 300
SOURCES = {
    "told": "told by you",
    "agent": "noted while working",
    "session": "from what you said",
    "postmortem": "from a failed task",
}
KINDS = {"note": "note", "turn": "turn", "imported": "brought along"}


def note_line(found: Note) -> str:
    kind = "" if found.kind == "fact" else f" *({found.kind})*"
    return f"- `{found.name}` {_one_line(found.body)}{kind}"


def notes(found: Sequence[Note], count: int) -> str:
    lines = [note_line(note) for note in found]
    if count > len(found):
        lines.append(f"\n…and {count - len(found)} older ones: `/memory WORDS` finds them.")
    lines.append("\n`/memory WORDS` searches, `/memory ID` shows one in full, `/forget ID` forgets it.")
    return "\n".join(lines)


def note(found: Note, before: Sequence[Note]) -> str:
    """One note in full, with what it took the place of."""
    sure = "" if found.confidence >= 1 else f", {found.confidence:.0%} sure"
    parts = [f"`{found.name}` {found.body}", f"{SOURCES.get(found.source, found.source)}, {day(found.at)}{sure}"]
    if found.superseded_by is not None:
        parts.append(f"It no longer stands: `{found.superseded_by.hex[:NAMED_BY]}` took its place.")
    if before:
        parts.append("It took the place of:\n" + "\n".join(f"- `{old.name}` {_one_line(old.body)} ({day(old.at)})"
                                                          for old in before))  # fmt: skip
    return "\n\n".join(parts)


def hits(found: Sequence[Hit]) -> str:
    return "\n".join(map(_hit, found))


def _hit(found: Hit) -> str:
    name = found.ref.replace("-", "")[:NAMED_BY]
    return f"- `{name}` {KINDS[found.kind]}, {day(found.at)}: {_one_line(found.body)}"


def several(found: Sequence[Target]) -> str:
    lines = "\n".join(f"- `{one.id.hex}`: {target(one)}" for one in found)
    return f"That names several; say more of the id:\n{lines}"


def asking(found: Sequence[Target]) -> str:
    count = len(found)
    return f"I found {count} thing{'s' if count != 1 else ''} and ask before I forget {'them' if count != 1 else 'it'}."


def not_all_words(found: Sequence[Hit]) -> str:
    return f"Nothing holds all of these words. If it is one of these, say `/forget` with its id:\n{hits(found)}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}…"
