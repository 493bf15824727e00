"""The checker of a folding: deterministic, and the only one who says that nothing was lost.

Whatever stands (promises, open tasks, questions that wait) must be in the new context word for word. Every fact of what
was folded must be in it, or be found by exact look-up. A record that a model wrote must besides tell what an extract
would have told, and nothing that the turn does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agent import facts as finding
from agent.facts import Fact
from agent.trajectory import Context, Said

RECORD_CHARACTERS = 1400
NAMED = 5


@dataclass(frozen=True)
class Missing:
    """What a new context would lose. ``kind``: ``standing`` or a fact's."""

    kind: str
    value: str


class CheckFailed(Exception):
    """A folding would have lost something; the old context stands. The text names the first few."""

    def __init__(self, missing: Sequence[Missing]) -> None:
        named = "; ".join(f"{one.kind} {one.value[:80]!r}" for one in missing[:NAMED])
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        super().__init__(f"{named}{more} would have been lost")
        self.missing = tuple(missing)


def words_of(context: Context) -> str:
    """All that an engine reads of what was said and stands."""
    turns = [said.words for turn in (*context.recent, context.turn) for said in turn]
    called = [
        value
        for turn in (*context.recent, context.turn)
        for said in turn
        for call in said.data.get("calls", ())
        for value in call["arguments"].values()
        if isinstance(value, str)
    ]
    opened = [line for turn in (*context.recent, context.turn) for said in turn for line in _opened(said)]
    return "\n".join([*context.standing, *context.notes, *context.folded, *turns, *called, *opened])


def _opened(said: Said) -> Sequence[str]:
    """What a message's preface told to stand."""
    preface = said.data.get("preface") or {}
    return [str(line) for line in preface.get("opened", ())]


def check(
    words: str, standing: Iterable[str], folded: Iterable[Fact], is_found: Callable[[Fact], bool]
) -> list[Missing]:
    """What the context that reads ``words`` would lose; empty: it may take the old one's place."""
    missing = [Missing("standing", line) for line in standing if line not in words]
    plain = " ".join(words.split())
    for fact in dict.fromkeys(folded):
        if fact.value not in words and fact.value not in plain and not is_found(fact):
            missing.append(Missing(fact.kind, fact.value))
    return missing


def check_record(record: str, turn: Sequence[Said], extract: str) -> list[Missing]:
    """What is wrong with a record that a model wrote, beside the ``extract`` made by rule."""
    if not record.strip() or len(record) > RECORD_CHARACTERS:
        return [Missing("record", "of no use: empty or too long")]
    of_turn = finding.of_turn(turn)
    missing = [Missing(fact.kind, fact.value) for fact in of_turn if fact.value in extract and fact.value not in record]
    known = " ".join(f"{said.words} {said.data}" for said in turn)
    missing += [Missing("invented", value) for value in finding.identifiers(record) if _bare(value) not in known]
    return missing


def _bare(value: str) -> str:
    return value.removeprefix("port ")
