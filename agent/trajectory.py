"""The trajectory: what a turn's engine is given, and how old turns fold into it.

The order is cache-friendly: role, then the head (commitments, notes, folded history), the last turns word for word,
this turn. What is picked for a message and the status bar ride with that message (its preface), frozen with it.
Folding is extractive and needs no model: each turn folds once, by itself, into a record that keeps every identifier,
file name and outcome it can afford; the turn's own words stay retrievable from its record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent import texts
from agent.tool import Tools
from workspace_store.database import to_json

Role = Literal["user", "assistant", "tool"]

CHARACTERS_PER_TOKEN = 4
VERBATIM_TURNS = 8
VERBATIM_SHARE = 37
"""Per cent of the window for the last turns word for word."""
FOLDED_SHARE = 25
"""Per cent of the window for records of older turns."""
FOLDED_RECORDS = 200
RECORD_CHARACTERS = 600
THINNED_CHARACTERS = 400
PREVIEW_CHARACTERS = 8192
"""Outputs above this go to a blob and are shown by head and tail."""

# What a fold must not lose: ids, hashes, addresses, paths, numbers with meaning. Matched within one word of bounded
# length, since a search for an address in a long run of letters costs the square of its length.
IDENTIFIER = re.compile(
    r"""https?://[^\s<>"')]+ | [\w.+-]+@[\w-]+\.[\w.-]+ | \b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b
      | \b[0-9a-f]{7,64}\b | (?:~|\.{1,2})?(?:/[\w.@+-]+)+ | \b[\w-]+\.[a-z]{1,5}\b
      | \b[A-Z][A-Z0-9]*[-_]\d+\b | :\d{2,5}\b""",
    re.VERBOSE,
)
WORD_CHARACTERS = 256
# A line in a member's own words that looks like the line which says who speaks.
FORGED_LINE = re.compile(r"^([ \t\xa0]*From\b.*\([0-9a-f-]{36}\):)", re.MULTILINE | re.IGNORECASE)
QUOTED = r"> \1"
WORDS_LOOKED_AT = 4000


@dataclass(frozen=True)
class Said:
    """One thing said or done in a turn. ``message``: hex UUID of the inbox message it is or answers.

    ``data`` of a person's words: ``context`` (quoted or forwarded words), ``files`` (``name``, ``content_type``,
    ``size``, ``path`` in the sandbox, ``problem`` where there is none) and ``preface`` (see ``agent.preface``).
    """

    role: Role
    text: str
    message: str = ""
    call: str = ""
    name: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    speaker: str = ""
    """Who said it, in a room: ``Ann (UUID)``, made harmless by ``identity.names``."""

    @property
    def words(self) -> str:
        """The text as a model is to read it, with a line for each file that came with it.

        In a room it stands under a line that says who speaks, which nobody can forge.
        """
        files = [texts.file_line(file) for file in self.data.get("files", ())]
        text = "\n".join(filter(None, (self.text, *files)))
        return f"From {self.speaker}:\n{FORGED_LINE.sub(QUOTED, text)}" if self.speaker else text

    def to_json(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.__dict__.items() if value not in ("", {})}
        return {"role": self.role, "text": self.text} | kept

    @staticmethod
    def from_json(body: dict[str, Any]) -> Said:
        return Said(**body)


@dataclass
class Context:
    """What an engine sees: bounded whatever the history."""

    policy: str
    notes: list[str]
    folded: list[str]
    recent: list[list[Said]]
    turn: list[Said]
    status: str = ""
    """Said last, where the turn has no preface of its own."""
    tools: Tools = field(default_factory=dict)
    """What the engine may ask for."""
    standing: list[str] = field(default_factory=list)
    """Open tasks, promises and questions that wait: always word for word."""

    def tokens(self) -> int:
        texts_before = [self.policy, self.status, *self.standing, *self.notes, *self.folded]
        told = sum(tool.characters for tool in self.tools.values()) // CHARACTERS_PER_TOKEN
        return told + sum(map(count_tokens, texts_before)) + sum(map(count_turn, [*self.recent, self.turn]))


def count_tokens(text: str) -> int:
    """An estimate, on the safe side for English text."""
    return len(text) // CHARACTERS_PER_TOKEN + 1


def count_turn(turn: Sequence[Said]) -> int:
    return sum(count_tokens(said.words) + len(to_json(said.data)) // CHARACTERS_PER_TOKEN for said in turn)


def preview(text: str, blob: str | None, limit: int = PREVIEW_CHARACTERS) -> str:
    """Head and tail of a large output with what was left out between, decided once."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    where = f", whole output kept as {blob[:16]}" if blob else ""
    return f"{text[:half]}\n[… {left_out:,} characters left out{where} …]\n{text[-half:]}"


def shortened(said: Said) -> Said:
    """What is kept of a thing said for later turns: long words by head and tail; a result was cut when it came."""
    return said if said.role == "tool" else replace(said, text=preview(said.text, None))


def with_short_calls(said: Said) -> Said:
    """A step with the long words of its calls by head and tail, decided once: as its own turn goes on to see it."""
    calls = [
        call | {"arguments": {k: preview(v, None) if isinstance(v, str) else v for k, v in call["arguments"].items()}}
        for call in said.data.get("calls", ())
    ]
    return replace(said, data=said.data | ({"calls": calls} if calls else {}))


def fold(turn: Sequence[Said], limit: int = RECORD_CHARACTERS) -> str:
    """One turn as a record: what was asked, done and answered, and every identifier of it that fits."""
    lines: list[str] = []
    for said in turn:
        if said.words.strip():
            lines.append(f"{_who(said)}: {_first_line(said.words)}")
        lines += [line for line in _did(said) if not any(line in other for other in lines)]
    head = " | ".join(lines)[:limit]
    found: dict[str, None] = {}
    for said in turn:
        for identifier in identifiers(said.words):
            if identifier not in head:
                found[identifier] = None
    kept, used = [], 0
    for identifier in found:
        used += len(identifier) + 1
        if used > limit:
            break
        kept.append(identifier)
    return head + (f" [{' '.join(kept)}]" if kept else "")


def identifiers(text: str) -> Iterator[str]:
    """Ids, hashes, addresses, paths and the like in the first words of a text; linear in its length."""
    for word in text.split(None, WORDS_LOOKED_AT)[:WORDS_LOOKED_AT]:
        yield from IDENTIFIER.findall(word[:WORD_CHARACTERS])


def _who(said: Said) -> str:
    asked = f"{said.speaker} asked" if said.speaker else "asked"
    return {"user": asked, "assistant": "answered", "tool": said.name or "tool"}[said.role]


def _did(said: Said) -> Iterator[str]:
    """What calls of a step did, as far as their words tell."""
    for call in said.data.get("calls", ()):
        words = " ".join(value for value in call["arguments"].values() if isinstance(value, str))
        yield _first_line(words)


def _first_line(text: str, limit: int = 160) -> str:
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def within(records: Sequence[str], budget: int) -> list[str]:
    """The newest ``records`` whose tokens fit ``budget``, in order."""
    kept: list[str] = []
    for record in reversed(records):
        budget -= count_tokens(record)
        if budget < 0:
            break
        kept.append(record)
    return kept[::-1]


def fit(context: Context, window: int) -> bool:
    """Bring a context above 80 % of the window down to it, oldest first, whole turns only; whether anything went.

    What was said in this turn and the notes are never dropped: they are what the turn is about. Of its tools' results
    all but the newest are thinned where nothing else is left to go.
    """
    changed = False
    limit = window * 8 // 10
    while context.tokens() > limit:
        if context.folded:
            context.folded.pop(0)
        elif context.recent:
            oldest = context.recent.pop(0)
            context.folded.append(fold(oldest))
            if not context.recent and context.tokens() > limit:
                context.folded.clear()
        elif not _thin_oldest(context.turn):
            break
        changed = True
    return changed


def _thin_oldest(turn: list[Said]) -> bool:
    """Leave head and tail of the oldest long result of a turn; False where there is none but the newest."""
    results = [number for number, said in enumerate(turn) if said.role == "tool"][:-1]
    for number in results:
        if len(turn[number].text) > 2 * THINNED_CHARACTERS:
            turn[number] = replace(turn[number], text=preview(turn[number].text, None, THINNED_CHARACTERS))
            return True
    return False
