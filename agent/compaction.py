"""Bringing a context down when it has grown above 80 % of the window: in one batch, checked, with a breaker.

What goes is decided once and kept from step to step of a turn, so that its requests go on beginning the same. Whole
turns go, oldest first, into records; then records; then steps of this very turn, cut only between complete pairs of
call and result; long words by head and tail come last. What does not pass the check leaves the old context as it was;
after three failures nothing more is tried in this turn, and that is said. What is larger than the window is never sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from agent import facts as finding
from agent import texts
from agent.checker import CheckFailed, Missing, check, words_of
from agent.facts import Fact
from agent.folding import Fold, fold
from agent.standing import Standing
from agent.trajectory import Context, Said, preview, with_short_calls, within

log = structlog.get_logger()

FULL_PERCENT = 80
TARGET_PERCENT = 60
FAILURES = 3
TURNS_KEPT = 2
STEPS_KEPT = 2
"""The newest exchanges of this turn stay word for word, as long as there is any other way."""
STEP_CHARACTERS = 600
THINNED = (2000, 400)
FOLDED_STEPS = "earlier steps of this turn, shortened"

Check = Callable[[str, Sequence[str], Sequence[Fact], Callable[[Fact], bool]], list[Missing]]


class ContextTooLarge(Exception):
    """What has to be said is larger than the window; the text says what a person can do."""


@dataclass
class Compaction:
    """What has gone from the context of one turn so far. ``fold`` and ``check`` are the ones of this package."""

    window: int
    fold: Fold = fold
    check: Check = check
    records: int = 0
    """How many records of the head are left out, oldest first."""
    turns: int = 0
    """How many of the last turns are told as records."""
    steps: int = 0
    """How many things said in this turn are told in short."""
    thinned: int = 0
    """Above so many characters, what was said is told by head and tail; 0: nothing is."""
    failures: int = 0
    _made: dict[int, str] = field(default_factory=dict)
    """Records of the last turns, by their place."""

    def view(self, context: Context, standing: Standing) -> Context:
        """The context as it is to be read: whole, or with what has gone. Raises ContextTooLarge."""
        seen = self._applied(context, standing)
        if seen.tokens() > self.window * FULL_PERCENT // 100 and self.failures < FAILURES:
            seen = self._batch(context, standing, seen)
        if seen.tokens() > self.window:
            raise ContextTooLarge(texts.too_large(seen.tokens(), self.window))
        return seen

    def _batch(self, context: Context, standing: Standing, before: Context) -> Context:
        """Let more go, down to the target in one batch; what was there, where that would lose something."""
        tried = replace(self, _made=dict(self._made))
        after = tried._shrunk(context, standing)
        facts = [fact for turn in (*context.recent, context.turn) for fact in finding.of_turn(turn)]
        # Their own words are kept (records, journal), and `recall` looks through them as long as they are not folded.
        lost = self.check(words_of(after), standing.must_hold(), facts, frozenset(facts).__contains__)
        if lost:
            self.failures += 1
            log.error("a context was not shortened", reason=str(CheckFailed(lost)), failures=self.failures)
            return before
        self.records, self.turns, self.steps = tried.records, tried.turns, tried.steps
        self.thinned, self._made = tried.thinned, tried._made
        return after

    def _shrunk(self, context: Context, standing: Standing) -> Context:
        target = self.window * TARGET_PERCENT // 100
        ways = (self._older_turns, self._more_records, self._more_turns, self._more_records, self._more_steps)
        for more in (*ways, self._thinner):
            while (seen := self._applied(context, standing)).tokens() > target and more(context):
                pass
        return seen

    def _older_turns(self, context: Context) -> bool:
        return self.turns < len(context.recent) - TURNS_KEPT and self._more_turns(context)

    def _more_turns(self, context: Context) -> bool:
        self.turns += 1
        return self.turns <= len(context.recent) or self._back_to("turns", len(context.recent))

    def _more_records(self, context: Context) -> bool:
        # A few at a time: each look at what is left costs as much as reading all of it.
        most = len(context.folded) + self.turns
        self.records += max(1, most // 8)
        return self.records <= most or self._back_to("records", most)

    def _more_steps(self, context: Context) -> bool:
        cuts = _cuts(context.turn)[: -STEPS_KEPT or None]
        further = [cut for cut in cuts if cut > self.steps]
        self.steps = further[0] if further else self.steps
        return bool(further)

    def _thinner(self, context: Context) -> bool:
        smaller = [size for size in THINNED if not self.thinned or size < self.thinned]
        self.thinned = smaller[0] if smaller else self.thinned
        return bool(smaller)

    def _back_to(self, name: str, most: int) -> bool:
        setattr(self, name, most)
        return False

    def _applied(self, context: Context, standing: Standing) -> Context:
        """The context without what has gone."""
        if not (self.records or self.turns or self.steps or self.thinned):
            return context
        made = [self._record(number, turn) for number, turn in enumerate(context.recent[: self.turns])]
        turn = list(context.turn)
        if self.steps:
            asked = [said for said in turn[: self.steps] if said.role == "user"]
            told = [said for said in turn[: self.steps] if said.role != "user"]
            turn = [*asked, self._told_in_short(told), *turn[self.steps :]]
        if self.thinned:
            turn = [_thin(said, self.thinned) for said in turn]
        return replace(
            context,
            folded=[*context.folded, *made][self.records :],
            recent=context.recent[self.turns :],
            turn=turn,
            # What the prefaces of turns that are gone had told stands here now.
            standing=standing.lines(),
            taken=[call["id"] for said in context.turn for call in said.data.get("calls", ())],
        )

    def _record(self, number: int, turn: Sequence[Said]) -> str:
        if number not in self._made:
            self._made[number] = self.fold(turn)
        return self._made[number]

    def _told_in_short(self, said: Sequence[Said]) -> Said:
        """Complete exchanges as one result that nobody asked for, the newest last, as many as there is room for."""
        records = [self.fold(part)[:STEP_CHARACTERS] for part in _exchanges(said)]
        kept = within(records, self.window * (TARGET_PERCENT // 3) // 100)
        left_out = len(records) - len(kept)
        lines = [texts.steps_left_out(left_out)] if left_out else []
        return Said("tool", "\n".join([*lines, *(f"- {record}" for record in kept)]), name=FOLDED_STEPS)


def _cuts(turn: Sequence[Said]) -> list[int]:
    """Where a turn may be cut: before a step, when every call before it has its result; never before the first."""
    cuts, waiting = [], set[str]()
    for place, said in enumerate(turn):
        if place and said.role == "assistant" and not waiting:
            cuts.append(place)
        waiting |= {call["id"] for call in said.data.get("calls", ())}
        waiting.discard(said.call)
    return cuts[1:]


def _exchanges(said: Sequence[Said]) -> list[list[Said]]:
    """Steps with the results they led to."""
    found: list[list[Said]] = []
    for one in said:
        if one.role == "assistant" or not found:
            found.append([])
        found[-1].append(one)
    return found


def _thin(said: Said, most: int) -> Said:
    """A thing said by head and tail, its quoted words too."""
    quoted = said.data.get("context")
    data = {**said.data, "context": preview(str(quoted), None, most)} if quoted else said.data
    data = {name: value for name, value in data.items() if name != "pictures"}
    return with_short_calls(replace(said, text=preview(said.text, None, most), data=data), most)
