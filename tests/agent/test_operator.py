"""The operator understands its exact forms, does one thing at a time, and says what it cannot do."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import texts
from agent.operator import Operator, understand, use
from agent.trajectory import Context, Said


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("$ ls -la", "shell", {"command": "ls -la"}),
        ("$ls", "shell", {"command": "ls"}),
        ("  $ export FOO=1; cd sub\n", "shell", {"command": "export FOO=1; cd sub"}),
        ("$ cat <<E\na\nE", "shell", {"command": "cat <<E\na\nE"}),
        ("$& sleep 60", "shell", {"command": "sleep 60", "background": True}),
        ("remember that the code is 4711", "remember", {"text": "the code is 4711"}),
        ("Remember: milk", "remember", {"text": "milk"}),
        ("recall door code", "recall", {"query": "door code"}),
        ("RECALL, door", "recall", {"query": "door"}),
        ("tasks", "tasks", {}),
        ("output 3", "task_output", {"task": "3"}),
        ("$&never sleep 60", "shell", {"command": "sleep 60", "background": True, "policy": "never"}),
        ("$&asking", "shell", {"command": "asking", "background": True}),
        ("$& ask me", "shell", {"command": "ask me", "background": True}),
        ("stop 12", "stop_task", {"task": "12"}),
        ("start 12", "start_task", {"task": "12"}),
        ("start 12 never", "start_task", {"task": "12", "policy": "never"}),
    ],
)
def test_an_exact_form_is_a_tool_call(text: str, tool: str, arguments: dict[str, object]) -> None:
    assert understand(text) == (tool, arguments)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("$", texts.EMPTY_COMMAND),
        ("$&", texts.EMPTY_COMMAND),
        ("remember", texts.NOTHING_TO_REMEMBER),
        ("recall", texts.NOTHING_TO_RECALL),
        ("hello", texts.CAPABILITIES),
        ("remembering is hard", texts.CAPABILITIES),
        ("tasks please", texts.CAPABILITIES),
        ("stop it", texts.CAPABILITIES),
        ("start 3 always", texts.CAPABILITIES),
        ("output 99999999999", texts.CAPABILITIES),
        ("could you run $ ls", texts.CAPABILITIES),
    ],
)
def test_anything_else_is_answered_at_once_and_honestly(text: str, answer: str) -> None:
    assert understand(text) == answer


@given(st.text(max_size=200))
def test_no_text_is_too_strange_to_be_understood_or_answered(text: str) -> None:
    found = understand(text)
    tools = {"shell", "remember", "recall", "tasks", "task_output", "stop_task", "start_task"}
    assert isinstance(found, str) or found[0] in tools


def context(*turn: Said) -> Context:
    return Context("", [], [], [], list(turn), "")


async def test_it_asks_for_one_tool_then_answers_with_its_result() -> None:
    asked = Said("user", "$ date", message="m1")
    step = await Operator().step(context(asked))
    (call,) = step.calls
    assert (call.name, call.arguments) == ("shell", {"command": "date"})
    step = await Operator().step(context(asked, Said("tool", "today", call=call.id)))
    assert (step.calls, step.replies) == ((), {"m1": "today"})


async def test_each_message_of_a_turn_gets_its_own_answer_in_order() -> None:
    turn = [Said("user", text, message=f"m{n}") for n, text in enumerate(["$ a", "hello", "$ b"])]
    commands = []
    while (step := await Operator().step(context(*turn))).calls:
        commands.append(step.calls[0].arguments["command"])
        turn.append(Said("tool", f"out of {commands[-1]}", call=step.calls[0].id))
    assert commands == ["a", "b"]
    assert step.replies == {"m0": "out of a", "m1": texts.CAPABILITIES, "m2": "out of b"}


def test_arguments_of_a_tool_without_end_are_refused_in_words() -> None:
    answer = use("/tool recall " + "[" * 200_000, {"recall": cast("Any", None)})
    assert isinstance(answer, str)
    assert answer.startswith(texts.bad_tool_arguments("recall", "")[:20])
