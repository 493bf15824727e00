"""What a person reads from ``nightporter memory``, and of histories that are brought along."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

NOT_UTF8 = "it is not UTF-8"

NOT_AN_OBJECT = "it is no JSON object"


def not_json(reason: str) -> str:
    return f"it is not JSON ({reason})"


def field_missing(name: str) -> str:
    return f"`{name}` is missing or empty"


def field_wrong(name: str, wanted: str) -> str:
    return f"`{name}` must be {wanted}"


def other_words(key: str) -> str:
    return f"id {key!r} was there already, with other words; those stay"


def bad_line(number: int, reason: str) -> str:
    return f"line {number}: {reason}"


def imported(new: int, known: int, bad: int) -> str:
    lines = "1 line was not taken; mend it" if bad == 1 else f"{bad} lines were not taken; mend them"
    left = f" {lines} and import the file again." if bad else ""
    messages = "1 message" if new == 1 else f"{new} messages"
    return f"Imported {messages}; {known} {'was' if known == 1 else 'were'} there already.{left}"


def note(identifier: str, text: str, kind: str, at: str) -> str:
    return f"{identifier.replace('-', '')[:8]}  {at}  {kind:10}  {' '.join(text.split())}"


def hit(identifier: str, kind: str, text: str, at: str, score: float) -> str:
    return f"{identifier.replace('-', '')[:8]}  {at[:16]}  {score:.4f}  {kind:8}  {' '.join(text.split())[:300]}"


def nothing_to_forget() -> str:
    return "Nothing in memory is called so, or holds all of these words."


def exported_memory(file: Path, lines: int) -> str:
    return f"{file} holds {lines} lines: notes, turns, imported words and the journal."


def by_words_alone(reason: str) -> str:
    return f"Searched by words alone: {reason}."


def names_several() -> str:
    return "An id names several things; give more of it."


def about_to_forget(lines: Sequence[str]) -> str:
    return "This forgets for good:\n" + "\n".join(f"- {line}" for line in lines)
