"""The trajectory: what a turn's engine is given, and how old turns fold into it.

The order is cache-friendly: role, then the head (commitments, notes, folded history), the last turns word for word,
this turn. What is picked for a message and the status bar ride with that message (its preface), frozen with it.
Folding is extractive and needs no model: each turn folds once, by itself, into a record that keeps every identifier,
file name and outcome it can afford; the turn's own words stay retrievable from its record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
PICTURE_TOKENS = 1500
"""About what providers count for one."""
PREVIEW_CHARACTERS = 8192
"""Outputs above this go to a blob and are shown by head and tail."""

# A line in a member's own words that looks like the line which says who speaks.
FORGED_LINE = re.compile(r"^([ \t\xa0]*From\b.*\([0-9a-f-]{36}\):)", re.MULTILINE | re.IGNORECASE)
QUOTED = r"> \1"


@dataclass(frozen=True)
class Said:
    """One thing said or done in a turn. ``message``: hex UUID of the inbox message it is or answers.

    ``data`` of a person's words: ``context`` (quoted or forwarded words), ``files`` (``name``, ``content_type``,
    ``size``, ``path`` in the sandbox, ``problem`` where there is none), ``pictures`` (blobs of those that can be looked
    at) and ``preface`` (see ``agent.preface``).
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
    taken: list[str] = field(default_factory=list)
    """Ids of the calls of this turn, where some of it is told in short: no new call may have one of them."""
    standing: list[str] = field(default_factory=list)
    """Open tasks, promises and questions that wait: always word for word."""
    pictures: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    """(type, bytes) by blob, of those that are named in what was said."""

    def tokens(self) -> int:
        texts_before = [self.policy, self.status, *self.standing, *self.notes, *self.folded]
        told = sum(tool.characters for tool in self.tools.values()) // CHARACTERS_PER_TOKEN
        return told + sum(map(count_tokens, texts_before)) + sum(map(count_turn, [*self.recent, self.turn]))


def count_tokens(text: str) -> int:
    """An estimate, on the safe side: letters beyond ASCII take more tokens."""
    return len(text) // CHARACTERS_PER_TOKEN + 1 if text.isascii() else len(text.encode("utf-8", "replace")) // 3 + 1


def count_turn(turn: Sequence[Said]) -> int:
    return sum(
        count_tokens(said.words)
        + len(to_json(said.data)) // CHARACTERS_PER_TOKEN
        + len(said.data.get("pictures", ())) * PICTURE_TOKENS
        for said in turn
    )


def picture_type(data: bytes) -> str:
    """The type of a picture that models look at, by its first bytes; empty: it is none."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


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


def with_short_calls(said: Said, limit: int = PREVIEW_CHARACTERS) -> Said:
    """A step with the long words of its calls by head and tail, decided once: as its own turn goes on to see it."""
    calls = [
        call | {"arguments": {k: _cut(v, limit) for k, v in call["arguments"].items()}}
        for call in said.data.get("calls", ())
    ]
    return replace(said, data=said.data | ({"calls": calls} if calls else {}))


def _cut(value: object, limit: int) -> object:
    return preview(value, None, limit) if isinstance(value, str) else value


def within(records: Sequence[str], budget: int) -> list[str]:
    """The newest ``records`` whose tokens fit ``budget``, in order."""
    kept: list[str] = []
    for record in reversed(records):
        budget -= count_tokens(record)
        if budget < 0:
            break
        kept.append(record)
    return kept[::-1]
