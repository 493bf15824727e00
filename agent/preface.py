"""What rides with a message: memory picked for it, and the status bar. Made once and frozen with the turn it is of.

So whatever changes from message to message stands at the end when it is new, and where it stood ever after: the
request of one turn is the beginning of the next one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.trajectory import Said

KEY = "preface"


@dataclass(frozen=True)
class Preface:
    """``recalled``: notes and records that may matter here; ``status``: lines of how things stand."""

    recalled: Sequence[str] = ()
    status: Sequence[str] = ()
    opened: Sequence[str] = ()
    """What stands and was not told yet (tasks, promises, questions), word for word."""
    closed: Sequence[str] = ()
    """What was told to stand and does no longer."""

    def __bool__(self) -> bool:
        return any(self.__dict__.values())

    def to_json(self) -> dict[str, Any]:
        return {name: list(lines) for name, lines in self.__dict__.items() if lines}

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Preface:
        return Preface(**{name: tuple(body.get(name, ())) for name in Preface.__dataclass_fields__})

    @staticmethod
    def of(said: Said) -> Preface:
        """The one of a message; an empty one where it has none."""
        return Preface.from_json(said.data.get(KEY) or {})


def given(turn: Sequence[Said], preface: Preface) -> list[Said]:
    """A turn with the preface at its newest message."""
    newest = max((number for number, said in enumerate(turn) if said.role == "user"), default=None)
    if newest is None or not preface:
        return list(turn)
    said = turn[newest]
    frozen = replace(said, data={**said.data, KEY: preface.to_json()})
    return [*turn[:newest], frozen, *turn[newest + 1 :]]


def changes_of_standing(
    frozen: Sequence[str], turns: Sequence[Sequence[Said]], now: Sequence[str]
) -> tuple[list[str], list[str]]:
    """What of ``now`` was not told by the head (``frozen``) and the prefaces since, and what they told that is over."""
    told = dict.fromkeys(frozen)
    for preface in (Preface.of(said) for turn in turns for said in turn):
        told = {line: None for line in told if line not in preface.closed} | dict.fromkeys(preface.opened)
    return [line for line in now if line not in told], [line for line in told if line not in now]


def recalled_in(turns: Sequence[Sequence[Said]]) -> set[str]:
    """What was picked for messages that are still told word for word: it need not be said again."""
    return {text for turn in turns for said in turn for text in Preface.of(said).recalled}
