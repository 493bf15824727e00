"""The checker finds whatever a folding lost, and believes a model's record only as far as it can follow it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from agent import facts
from agent.checker import check, check_record, words_of
from agent.compaction import Compaction, ContextTooLarge
from agent.facts import Fact
from agent.folding import fold
from agent.standing import Standing
from agent.trajectory import Context, Said
from workspace_store.commitments import Commitment

BUILD = {"id": "a", "name": "shell", "arguments": {"command": "make > logs/build.log"}}
PLANTED = [
    Said("user", "Deploy 0c5b1f9e-3a4d-4a9c-8b43-222222222222 to https://stage.example.org:8443/a. Never touch prod."),
    Said(
        "assistant",
        "",
        data={"calls": [BUILD]},
    ),
    Said("tool", "FAILED tests/test_login.py::test_token\n1 failed, 7 passed", call="a", name="shell"),
    Said("assistant", "We decided to keep sha 9f86d081884c7d65. I will retry by Monday. TODO: rotate the key."),
]


def never(fact: Fact) -> bool:
    return False


def test_a_whole_context_passes_and_each_lost_fact_is_named() -> None:
    context = Context("", [], [], [PLANTED], [])
    found = facts.of_turn(PLANTED)
    assert {fact.kind for fact in found} == {
        "commitment",
        "decision",
        "constraint",
        "todo",
        "verdict",
        "file",
        "identifier",
    }
    assert check(words_of(context), [], found, never) == []
    for fact in found:
        words = words_of(context).replace(fact.value, "…")
        assert fact in [Fact(one.kind, one.value) for one in check(words, [], found, never)]  # type: ignore[arg-type]
        assert check(words, [], [fact], lambda _: True) == []


def test_what_stands_must_be_there_word_for_word_and_no_look_up_makes_up_for_it() -> None:
    lost = check("Promise 1: send it on Thursday", ["send it on Friday"], [], lambda _: True)
    assert [(one.kind, one.value) for one in lost] == [("standing", "send it on Friday")]


# Records that a model wrote


def test_a_models_record_that_tells_all_is_taken() -> None:
    extract = fold(PLANTED)
    assert check_record(extract, PLANTED, extract) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: "",
        lambda record: record * 3,
        lambda record: record.replace("9f86d081884c7d65", "a hash"),
        lambda record: record.replace(
            "We decided to keep sha 9f86d081884c7d65.", "A decision was made on 9f86d081884c7d65."
        ),
        lambda record: record + " Then c0ffee1234567 was deployed.",
        lambda record: record.replace("test_login.py", "test_logout.py"),
    ],
)
def test_a_models_record_that_loses_or_invents_is_not_believed(spoil: Callable[[str], str]) -> None:
    extract = fold(PLANTED)
    assert check_record(spoil(extract), PLANTED, extract) != []


# Shortening a context in the middle of a turn


def promise(number: int, body: str) -> Commitment:
    return Commitment(uuid4(), number, None, body, False, None, 0)


STANDING = Standing(commitments=[promise(1, "send the invoice by Friday")])


def exchange(number: int, size: int = 4000) -> list[Said]:
    call = {"id": f"c{number}", "name": "shell", "arguments": {"command": f"cat part-{number}.log"}}
    result = f"digest {number:08d}feedbeef {'x ' * (size // 2)}"
    return [Said("assistant", "", data={"calls": [call]}), Said("tool", result, call=f"c{number}", name="shell")]


def long_turn(exchanges: int) -> Context:
    turn = [Said("user", "go through all parts", message="m")]
    for number in range(exchanges):
        turn += exchange(number)
    return Context("policy", [], [], [], turn, standing=STANDING.lines())


@pytest.mark.slow
def test_a_long_turn_is_cut_between_complete_pairs_and_stays_within_the_window() -> None:
    compaction = Compaction(8000)
    for exchanges in range(1, 40, 2):
        context = long_turn(exchanges)
        seen = compaction.view(context, STANDING)
        assert seen.tokens() <= 8000 * 8 // 10
        asked = [call["id"] for said in seen.turn for call in said.data.get("calls", ())]
        assert asked == [said.call for said in seen.turn if said.call]
        assert seen.turn[0] == context.turn[0]
        assert seen.turn[-1] == context.turn[-1]
        assert "send the invoice by Friday" in words_of(seen)
    taken = [f"c{number}" for number in range(39)]
    assert seen.taken == taken
    assert "part-36.log" in words_of(seen)


@pytest.mark.slow
def test_steps_between_two_batches_begin_the_same() -> None:
    compaction, before, batches = Compaction(8000), list[Said](), 0
    for exchanges in range(1, 40):
        seen = compaction.view(long_turn(exchanges), STANDING)
        same = seen.turn[: len(before)] == before
        batches += not same
        before = seen.turn
    # Two steps or more a batch, not one.
    assert 2 <= batches <= 19


def test_a_failed_check_keeps_the_old_context_and_the_third_stops_for_good() -> None:
    asked = []

    def loses(*given: object) -> list[object]:
        asked.append(given)
        return check("", ["anything"], [], never)  # type: ignore[return-value]

    compaction = Compaction(8000, check=loses)  # type: ignore[arg-type]
    context = long_turn(7)
    assert 6400 < context.tokens() < 8000
    for _ in range(5):
        assert compaction.view(context, STANDING) is context
    assert len(asked) == 3
    with pytest.raises(ContextTooLarge, match="set engine"):
        compaction.view(long_turn(20), STANDING)


def test_what_alone_is_larger_than_the_window_is_told_by_head_and_tail_or_not_sent() -> None:
    context = replace(long_turn(0), turn=[Said("user", "begin " + "x" * 100_000 + " end", message="m")])
    seen = Compaction(8000).view(context, STANDING)
    assert seen.turn[0].text.startswith("begin ")
    assert seen.turn[0].text.endswith(" end")
    assert seen.tokens() < 8000
    with pytest.raises(ContextTooLarge):
        Compaction(100).view(replace(context, policy="p" * 4000), STANDING)


def test_what_the_prefaces_of_turns_that_went_had_told_stands_at_the_head() -> None:
    told = {"preface": {"opened": STANDING.lines()}}
    recent = [[Said("user", f"turn {n} " + "y" * 4000, data=told if n == 0 else {})] for n in range(10)]
    context = Context("policy", [], [], recent, [Said("user", "now")])
    assert context.standing == []
    seen = Compaction(8000).view(context, STANDING)
    assert len(seen.recent) < 10
    assert seen.standing == STANDING.lines()
