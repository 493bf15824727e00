"""What a person reads of what the store itself asks and tells: approvals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol


class _Choice(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def verdict(self) -> str: ...


def question(about: str, choices: Sequence[_Choice], code: str) -> str:
    """An approval's question, answerable wherever it can be read."""
    first: dict[str, bool] = {}
    lines = []
    for choice in choices:
        word = "" if choice.verdict not in first else f" {choice.name}"
        first[choice.verdict] = True
        lines.append(f"- {choice.label}: `/{choice.verdict} {code}{word}`")
    return f"{_asked(about, '**')}\n\n" + "\n".join(lines)


def _asked(about: str, bold: str = "") -> str:
    """A question whose first line is a sentence of its own; a list or a quotation follows it."""
    sentence, *below = re.split(r"\n+(?=[->] )", about.strip(), maxsplit=1)
    return "\n\n".join([f"{bold}May I {sentence}?{bold}", *below])


NOT_EDITABLE = "this one can only be approved or denied as it is"


def replaced(about: str) -> str:
    """What a question says once something else is asked instead."""
    return f"{_asked(about)}\n\n✏️ This was changed; the newer question counts."


def answered_in_words(about: str) -> str:
    """What the agent's own question says once somebody answered it in words."""
    return f"{about}\n\n💬 Answered."


def decided(phrase: str, verdict: str, done: str, by: str, at: int) -> str:
    """What a question says once it is decided."""
    time = f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
    who = f" by {by}" if by else ""
    outcome = {
        "approve": f"✅ {done}{who}, {time}.",
        "deny": f"❌ {done}{who}, {time}.",
        "expired": f"⌛ Not answered in time; expired {time}.",
    }[verdict]
    return f"{phrase}\n\n{outcome}"


SECRET = "a key or token"
PRIVATE_KEY = "a private key"
PASSWORD = "a password or code"
CARD_NUMBER = "a card number"
BANK_ACCOUNT = "a bank account number"
NATIONAL_ID = "a national identity number"


def withheld(what: str) -> str:
    """What stands in memory in place of what is not kept there."""
    return f"[{what}, not kept]"


FORGOTTEN = "(forgotten)"
NOTHING_FORGOTTEN = "Nothing was forgotten."
FORGET_WHAT_WAS_LISTED = "forget for good what was listed here"
WORDS_SHOWN = 60


class _Target(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def at(self) -> int: ...
    @property
    def words(self) -> str: ...


KINDS = {"note": "the note", "turn": "what was said in the turn", "imported": "the imported words"}


def day(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def target(found: _Target) -> str:
    words = " ".join(found.words.replace("`", "'").split())
    shown = words if len(words) <= WORDS_SHOWN else f"{words[:WORDS_SHOWN]}…"
    said = f" of {day(found.at)}" if found.at else ""
    return f"{KINDS[found.kind]}{said}" + (f": {shown}" if shown else "")


def forget_these(targets: Sequence[_Target]) -> str:
    """Completes "May I …?"."""
    return "forget for good\n\n" + "\n".join(f"- {target(one)}" for one in targets) + "\n\n"


def forgot(counts: Mapping[str, int]) -> str:
    """What was forgotten, counted."""
    named = {"notes": "note", "turns": "turn", "imported": "imported message"}
    parts = [f"{count} {named[name]}{'s' if count != 1 else ''}" for name, count in counts.items() if count]
    return f"Forgotten: {', '.join(parts)}." if parts else NOTHING_FORGOTTEN


KEEPSAKE = """What Nightporter keeps of your talk. Every file is JSON lines (one object a line), in UTF-8; times are
Unix seconds.

notes.jsonl     what is kept in memory; `superseded_by` names the note that stands instead
turns.jsonl     your turns, word for word
imported.jsonl  words you brought along, in the form `nightporter users import-history` takes
journal.jsonl   everything that happened, hash-chained; `body` is null where it was forgotten

Your files are not in it: `nightporter workspace export` writes those.
"""
