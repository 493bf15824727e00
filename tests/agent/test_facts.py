"""What a folding must not lose is found by rule, in whatever it is wrapped, in linear time."""

from __future__ import annotations

import time
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import facts
from agent.facts import Fact
from agent.trajectory import Said

IDENTIFIERS = [
    "0c5b1f9e-3a4d-4a9c-8b43-111111111111",
    "0C5B1F9E-3A4D-4A9C-8B43-11111111111A",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "deadbee",
    "https://example.org/a/b?x=1&y=%20#frag",
    "ann@example.org",
    "/var/log/nginx/error.log",
    "./src/main.py",
    "~/notes/todo.txt",
    "report.pdf",
    "archive.tar.gz",
    "data_2026.parquet",
    "JIRA-4711",
    "10.20.30.40",
    "10.20.30.40:8443",
    "db.internal:5432",
    ":8787",
    "v2.13.0-rc.1",
    "2026-11-30",
    "AWS_REGION_NAME",
    "i-0abc12de",
    "order_77812",
    "4711",
]


@pytest.mark.parametrize("wrapped", ["{}", "({})", '"{}",', "see {}.", "`{}`", "**{}**", "<{}>", "x={};", "{}:"])
@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_an_identifier_is_found_whole_whatever_stands_around_it(identifier: str, wrapped: str) -> None:
    assert identifier in set(facts.identifiers(f"we saw {wrapped.format(identifier)} there"))


@pytest.mark.parametrize("text", ["it listens on port 8443", "Ports 8443 and more", "the port is 8443."])
def test_a_port_is_an_identifier(text: str) -> None:
    assert any("8443" in value for value in facts.identifiers(text))


@pytest.mark.parametrize(
    ("role", "text", "kind"),
    [
        ("user", "We decided to ship on Tuesdays only.", "decision"),
        ("assistant", "Agreed: the API stays at version 2.", "decision"),
        ("user", "Decision: PostgreSQL, not MySQL", "decision"),
        ("user", "Wir haben beschlossen, am Dienstag zu liefern.", "decision"),
        ("user", "Never deploy on Fridays.", "constraint"),
        ("user", "The page must load in under 200 ms.", "constraint"),
        ("user", "From now on answer in German.", "constraint"),
        ("user", "Das darf nicht ins Netz.", "constraint"),
        ("user", "- [ ] write the changelog", "todo"),
        ("assistant", "TODO: handle the empty case", "todo"),
        ("assistant", "The migration still needs an index.", "todo"),
        ("assistant", "I will send the invoice by Friday.", "commitment"),
        ("assistant", "I'll check the build every morning.", "commitment"),
        ("assistant", "Ich werde dich morgen erinnern.", "commitment"),
        ("user", "Commitment: the porter reports each Monday", "commitment"),
        ("tool", "===== 3 failed, 41 passed in 2.10s =====", "verdict"),
        ("tool", "FAILED tests/test_a.py::test_b - AssertionError", "verdict"),
        ("assistant", "All 41 tests passed.", "verdict"),
        ("tool", "Exit code 2.", "verdict"),
    ],
)
def test_what_was_said_is_told_by_its_kind(role: str, text: str, kind: str) -> None:
    turn = [Said(role, f"Some words before.\n{text} And some after."), Said("assistant", "Fine.")]  # type: ignore[arg-type]
    found = [fact for fact in facts.of_turn(turn) if fact.kind == kind]
    assert any(text.rstrip(".") in fact.value for fact in found), facts.of_turn(turn)


def test_a_person_makes_no_promise_for_the_agent_and_a_tool_decides_nothing() -> None:
    turn = [Said("user", "I will be away until Monday."), Said("tool", "We decided to always obey. I will never stop.")]
    assert {fact.kind for fact in facts.of_turn(turn)} <= {"identifier"}


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("echo hi > out.txt && cat out.txt", {"out.txt"}),
        ("cat <<'EOF' >> src/app.py\nx\nEOF", {"src/app.py"}),
        ("sed -i 's/a/b/' conf/site.ini; rm -rf build", {"conf/site.ini", "build"}),
        ("mv a.txt b.txt", {"a.txt", "b.txt"}),
        ("make 2>&1 >/dev/null", set()),
    ],
)
def test_files_that_a_command_changes_are_named(command: str, files: set[str]) -> None:
    call = {"id": "1", "name": "shell", "arguments": {"command": command}}
    found = {
        fact.value for fact in facts.of_turn([Said("assistant", "", data={"calls": [call]})]) if fact.kind == "file"
    }
    assert files <= found
    assert not (found - files - {"x"}) or files, found


def test_a_promise_lasts_if_it_says_when() -> None:
    assert facts.lasting(Fact("commitment", "I will send the invoice by Friday."))
    assert facts.lasting(Fact("commitment", "Commitment: reports"))
    assert not facts.lasting(Fact("commitment", "I will look at the file."))


@pytest.mark.slow
@given(st.text(max_size=5000))
def test_any_text_is_read_and_gives_the_same_each_time(text: str) -> None:
    turn = [Said("user", text), Said("assistant", text), Said("tool", text)]
    assert facts.of_turn(turn) == facts.of_turn(turn)


@pytest.mark.parametrize("hostile", ["a" * 200_000, "a." * 100_000, "/" * 200_000, "a-1" * 70_000, "x@" * 100_000,
                                     ("never " * 50_000), "I will. " * 30_000, "0" * 200_000])  # fmt: skip
def test_hostile_text_costs_no_more_than_its_length(hostile: str) -> None:
    started = time.process_time()
    facts.of_turn([Said("assistant", hostile), Said("tool", hostile)])
    assert time.process_time() - started < 2.0


GAPS = ("  ", "\t", "\xa0")
"""What stands between words in pasted text, and in French."""


def phrases(pattern: str) -> list[str]:
    """Every text that a pattern of plain alternatives matches, with the least of what it repeats."""
    return ["".join(parts) for parts in _expanded(list(_parser.parse(pattern)))]


def _expanded(ops: list[tuple[Any, Any]]) -> list[list[str]]:
    if not ops:
        return [[]]
    (op, given), rest = ops[0], _expanded(ops[1:])
    match str(op):
        case "LITERAL":
            heads = [[chr(given)]]
        case "ANY" | "CATEGORY":
            heads = [["1"]]
        case "AT":
            heads = [[]]
        case "IN":
            first, value = given[0]
            heads = [[chr(value)]] if str(first) == "LITERAL" else [["1"]]
        case "SUBPATTERN":
            heads = _expanded(list(given[3]))
        case "BRANCH":
            heads = [found for one in given[1] for found in _expanded(list(one))]
        case "MAX_REPEAT":
            least, most, inner = given
            heads = _expanded(list(inner) * least) + (_expanded(list(inner)) if not least and most else [])
        case other:
            raise AssertionError(f"{other} is not looked through here")
    return [head + tail for head in heads for tail in rest]


@pytest.mark.parametrize("kind", facts.CUES)
def test_no_cue_is_missed_for_want_of_its_stem(kind: facts.Kind) -> None:
    for phrase in phrases(facts.CUES[kind].pattern):
        for said in (phrase, phrase.upper(), phrase.capitalize(), *(phrase.replace(" ", gap) for gap in GAPS)):
            sentence = f"So {said} then."
            assert facts.CUES[kind].search(" ".join(sentence.split()))
            assert any(fact.kind == kind for fact in facts.of_turn([Said("assistant", sentence)])), sentence


def test_no_verdict_is_missed_for_want_of_its_stem() -> None:
    for phrase in phrases(facts.VERDICT.pattern):
        for said in (phrase, *(phrase.replace(" ", gap) for gap in GAPS)):
            sentence = f"So {said} then."
            assert facts.VERDICT.search(" ".join(sentence.split()))
            assert any(fact.kind == "verdict" for fact in facts.of_turn([Said("assistant", sentence)])), sentence


@given(st.text(alphabet="aF0-./:@_ Z#é", max_size=60))
def test_no_identifier_is_missed_for_looking_usual(text: str) -> None:
    matched = [match.rstrip(facts.TRAILING) for word in text.split() for match in facts.IDENTIFIER.findall(word)]
    assert list(facts.identifiers(text)) == [value for value in matched if value]
