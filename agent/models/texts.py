"""What a model reads around what was said, and what is said of it when it fails."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.preface import Preface
from agent.trajectory import Said

EARLIER = "(earlier)"
NO_ANSWER = "(no answer)"
EMPTY_RESULT = "(nothing)"
NEVER_RETURNED = "There is no result: this was never run, or its result was lost. Look before you repeat it."
CUT_OFF = "(My answer was cut off here: it had grown too long.)"
EMPTY_ANSWER = "it answered with nothing"
UNREADABLE = "its answer cannot be read"
FILTERED = "the provider refused to answer this"
MODELS_RESTING = "every model has failed repeatedly and is left alone for a moment"

NOT_OF_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
CLOSING_TAG = re.compile(r"<(/?)(quoted)\b", re.IGNORECASE)


def _harmless(text: str) -> str:
    """Quoted words that cannot end their own quotation."""
    return CLOSING_TAG.sub(r"<\1\2_", text)


def user_said(said: Said) -> str:
    """A message as a model reads it: the person's own words, and quoted ones apart as data."""
    quoted = str(said.data.get("context", ""))
    if not quoted:
        return said.words
    return f"{said.words}\n\n<quoted>\n{_harmless(quoted)}\n</quoted>"


def tool_said(said: Said) -> str:
    """A result as a model reads it: apart as data where it comes from somewhere nobody vouches for."""
    origin = str(said.data.get("origin", ""))
    return f"<quoted>\nFrom {origin}:\n{_harmless(said.text)}\n</quoted>" if origin else said.text


def tool_name(name: str) -> str:
    """What a model called a tool, as every provider takes it back."""
    return NOT_OF_A_NAME.sub("_", name)[:64] or "_"


def orphaned_result(name: str, text: str) -> str:
    return f"<quoted>\nOutput of {name or 'a tool'}:\n{_harmless(text)}\n</quoted>"


def past(standing: Sequence[str], notes: Sequence[str], folded: Sequence[str]) -> str:
    """What stands, and what is known from before the last turns, as the first thing a model reads."""
    parts = []
    if standing:
        parts.append("What stands (tasks, promises, open questions):\n" + "\n".join(f"- {line}" for line in standing))
    if notes:
        parts.append("Notes you keep:\n" + "\n".join(f"- {note}" for note in notes))
    if folded:
        parts.append("Earlier turns, shortened (`recall` finds more):\n" + "\n".join(f"- {text}" for text in folded))
    return "\n\n".join(parts)


def status_bar(lines: Sequence[str]) -> str:
    return "\n".join(["[status]", *lines]) if lines else ""


def preface(given: Preface) -> str:
    """What was picked from memory for a message, and how things stood when it came."""
    picked = "[memory]\n" + "\n".join(f"- {text}" for text in given.recalled) if given.recalled else ""
    opened = "Stands now too:\n" + "\n".join(f"- {line}" for line in given.opened) if given.opened else ""
    closed = "Stands no longer:\n" + "\n".join(f"- {line}" for line in given.closed) if given.closed else ""
    return "\n\n".join(filter(None, (picked, opened, closed, status_bar(given.status))))


def bad_arguments(fault: str) -> str:
    return f"the arguments were not understood ({fault}); ask again with ones that fit the tool's schema"


def of_model(model: str, reason: str) -> str:
    return f"{model}: {reason}"


def in_circles(tool: str, times: int) -> str:
    return f"I stopped myself: I was about to use `{tool}` in the same way for the {times}th time in a row"
