"""What the operator understands of tasks and promises: exact forms, like all of its."""

from __future__ import annotations

import re
from typing import Any

from agent import task_texts as texts

START = re.compile(r"task\s+start\s+(?P<goal>.+)", re.DOTALL | re.IGNORECASE)
LINE = re.compile(r"^\s*(?P<name>check|plan)\s*:\s*(?P<value>.+)$", re.IGNORECASE | re.MULTILINE)
ONE = re.compile(
    r"task\s+(?P<task>\d{1,9})\s+(?P<verb>done|claim|drop|step\s+(?P<step>\d{1,3})\s+(?P<state>todo|doing|done|dropped))"
    r"\b[:,]?\s*(?P<rest>.*)",
    re.DOTALL | re.IGNORECASE,
)
PROMISE_ENDS = re.compile(r"promise\s+(?P<promise>\d{1,9})\s+(?P<how>kept|dropped)\s*", re.IGNORECASE)
PROMISE = re.compile(r"promise\b[:,]?\s+(?:that\s+)?(?P<text>.+)", re.DOTALL | re.IGNORECASE)
INCOMPLETE = re.compile(r"(?:task|promise)(?:\s+(?:start|\d+))?\s*", re.IGNORECASE)


def understand(text: str) -> tuple[str, dict[str, Any]] | str | None:
    """The tool and arguments, an answer that says what is missing, or None: it is about something else."""
    if match := START.fullmatch(text):
        return _start(match["goal"])
    if match := ONE.fullmatch(text):
        return _one(match)
    if match := PROMISE_ENDS.fullmatch(text):
        return "promise_done", {"promise": int(match["promise"]), "kept": match["how"].lower() == "kept"}
    if match := PROMISE.fullmatch(text):
        return "promise", {"text": match["text"].strip()}
    return texts.OPERATOR_USAGE if INCOMPLETE.fullmatch(text) else None


def _start(goal: str) -> tuple[str, dict[str, Any]] | str:
    given: dict[str, Any] = {}
    for line in LINE.finditer(goal):
        value = line["value"].strip()
        if line["name"].lower() == "plan":
            given["plan"] = [step.strip() for step in value.split(";") if step.strip()]
        else:
            given["check"] = value
    goal = LINE.sub("", goal).strip()
    return ("task_start", {"goal": goal, **given}) if goal else texts.OPERATOR_USAGE


def _one(match: re.Match[str]) -> tuple[str, dict[str, Any]]:
    task, verb, rest = int(match["task"]), match["verb"].lower(), match["rest"].strip()
    if verb == "drop":
        return "task_drop", {"task": task, "reason": rest}
    if match["step"]:
        return "plan", {"task": task, "step": int(match["step"]), "state": match["state"].lower()}
    return "task_claim", {"task": task, "evidence": rest}
