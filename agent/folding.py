"""Folding: one turn becomes one record, once, and never a record of records.

Extractive, without a model: what was asked, done and answered, then the facts of the turn as far as they fit; the rest
of them is found by exact look-up, and the turn's own words stay retrievable. A model may write the record instead; it
is believed only as far as ``checker`` can follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from agent import facts as finding
from agent.facts import Fact
from agent.trajectory import Said

HEAD_CHARACTERS = 520
FACT_CHARACTERS = 340
IDENTIFIER_CHARACTERS = 340
RECORD_CHARACTERS = (HEAD_CHARACTERS + FACT_CHARACTERS + IDENTIFIER_CHARACTERS) // 2
"""Half of what a record may have at most."""
TOLD_AS = {
    "commitment": "promised", "decision": "decided", "constraint": "rule", "todo": "to do", "verdict": "found",
    "file": "changed",
}  # fmt: skip

Fold = Callable[[Sequence[Said]], str]


def fold(turn: Sequence[Said], facts: Sequence[Fact] | None = None) -> str:
    """One turn as a record: what was asked, done and answered, and every fact of it that fits.

    ``facts``: of this turn, where they have been looked for already.
    """
    lines: list[str] = []
    for said in turn:
        if said.words.strip():
            lines.append(f"{_who(said)}: {_first_line(said.words)}")
        lines += [line for line in _did(said) if not any(line in other for other in lines)]
    record = " | ".join(lines)[:HEAD_CHARACTERS]
    facts = finding.of_turn(turn) if facts is None else facts
    told = _fitting(record, (fact for fact in facts if fact.kind != "identifier"), FACT_CHARACTERS)
    record = " | ".join(filter(None, [record, *(f"{TOLD_AS[fact.kind]}: {fact.value}" for fact in told)]))
    named = _fitting(record, (fact for fact in facts if fact.kind == "identifier"), IDENTIFIER_CHARACTERS)
    return record + (f" [{' '.join(fact.value for fact in named)}]" if named else "")


def _fitting(record: str, facts: Iterable[Fact], limit: int) -> list[Fact]:
    """Those that the record does not tell yet and that fit together; what is too long lets shorter ones follow."""
    kept: list[Fact] = []
    for fact in facts:
        size = len(fact.value) + len(TOLD_AS.get(fact.kind, "")) + 5
        if fact.value in record or any(fact.value in other.value for other in kept) or size > limit:
            continue
        limit -= size
        kept.append(fact)
    return kept


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
