"""What stays retrievable word for word: a turn, whole, however long ago it was folded; what a value was said with; and
what was promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from agent import facts as finding
from agent import task_texts, texts
from workspace_store import checkpoints, commitments, erasure, facts, principal, sensitive
from workspace_store.memory import Hit

EXACT_CHARACTERS = 800
VALUES_LOOKED_UP = 8
NAMED_LOOKED_UP = 4
NAMED_CHARACTERS = 400

PROMISES = frozenset({"promises", "commitments"})
"""Asked for by these words, all that stand are told, also those that a context has no room for."""


def promises(connection: Connection, owner: UUID) -> list[str]:
    return [task_texts.standing_commitment(one) for one in commitments.standing(connection, owner)]


def whole_turn(connection: Connection, owner: UUID, name: str) -> str | None:
    """What was said and done in a turn, word for word, by its id or the beginning of it; None: there is none."""
    scope = principal.scope(connection, owner)
    for target in erasure.named(connection, owner, name):
        if target.kind == "turn":
            return texts.whole_turn(target.id, target.at, checkpoints.messages_of(connection, scope, target.id))
    return None


def values(query: str) -> list[str]:
    """The whole query, and words of it that may be identifiers."""
    words = [word.strip("`'\"?!,;") for word in query.split()]
    named = [word for word in words if any(not character.isalpha() for character in word)]
    return list(dict.fromkeys([query, *named]))[:VALUES_LOOKED_UP]


def hits(connection: Connection, owner: UUID, value: str) -> list[Hit]:
    """Folded turns that hold exactly this value, the newest and the first, by what stands around it."""
    found = []
    for fact, turn, messages in _turns_with(connection, owner, value):
        shown = around(messages, fact.value)
        at = checkpoints.at_of(connection, fact.principal, fact.seq)
        found += [Hit("turn", str(turn), sensitive.redacted(shown), at)] if shown else []
    return found


def _turns_with(
    connection: Connection, owner: UUID, value: str
) -> Iterator[tuple[facts.Found, UUID, list[dict[str, Any]]]]:
    """Folded turns that hold exactly this value, the newest and the first, and what was said and done in them."""
    for fact in facts.find(connection, owner, value, 2):
        turn = checkpoints.turn_at(connection, [fact.principal], fact.seq)
        if turn is not None:
            yield fact, turn, checkpoints.messages_of(connection, [fact.principal], turn)


def around(messages: Sequence[Mapping[str, Any]], value: str) -> str:
    """What stands around a value in the thing said or called that holds it; else how the turn began."""
    wanted = " ".join(value.split()).rstrip("…").casefold()
    lines = [line for said in messages for line in _lines(said)]
    for line in lines:
        place = line.casefold().find(wanted)
        if place >= 0:
            start = max(place - EXACT_CHARACTERS // 2, 0)
            return line[start : start + max(EXACT_CHARACTERS, place - start + len(wanted))].strip()
    return lines[0][:EXACT_CHARACTERS] if lines else ""


def _lines(said: Mapping[str, Any]) -> Iterator[str]:
    """What was said, and what its calls were given, each in one line."""
    data = said.get("data", {})
    called = [given for call in data.get("calls", ()) for given in call["arguments"].values()]
    for words in (said.get("text", ""), data.get("context", ""), *called):
        if isinstance(words, str) and (line := " ".join(words.split())):
            yield line


def said_of_named(connection: Connection, owner: UUID, words: str, known: Callable[[], str]) -> list[str]:
    """What was said in folded turns of the identifiers in ``words``: sentences that name others, which ``known``, what
    is read anyway, does not hold. Never what a tool printed: nobody here vouches for that.
    """
    found: dict[str, None] = {}
    for value in list(dict.fromkeys(finding.identifiers(words)))[:NAMED_LOOKED_UP]:
        for fact, _, messages in _turns_with(connection, owner, value):
            found |= dict.fromkeys(_told_with(messages, fact.value))
    if not found:
        return []
    read = known()
    return [
        sensitive.redacted(sentence)
        for sentence in found
        if any(other not in read and other not in words for other in finding.identifiers(sentence))
    ]


def _told_with(messages: Sequence[Mapping[str, Any]], value: str) -> Iterator[str]:
    for said in messages:
        if said.get("role") in ("user", "assistant"):
            for sentence in finding.sentences(str(said.get("text", ""))):
                if value.casefold() in sentence.casefold():
                    yield sentence[:NAMED_CHARACTERS]
