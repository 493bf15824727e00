"""What a model and its person read of schedules that a model makes."""

from __future__ import annotations

from agent.texts import code as quoted
from workspace_store import recurrence
from workspace_store.recurrence import Recurrence
from workspace_store.schedule_words import in_words
from workspace_store.schedules import Schedule

NONE = "Nothing is scheduled."
NOBODYS = "nobody said this here, so it would be nobody's word"


def may_add(when: str, text: str) -> str:
    """Completes "May I …?", with the words that would be said."""
    said = "\n".join(f"> {line}" for line in text.strip()[:600].splitlines())
    return f"schedule this in your name, {quoted(when[:200])}\n{said}\n"


def may_change(action: str, code: str) -> str:
    return f"{action} your schedule {quoted(code[:20])}"


def added(code: str, when: Recurrence, first: int) -> str:
    return f"Scheduled as `{code}`: {in_words(when)}; first {moment(first, when.zone)}."


def done(found: Schedule, action: str) -> str:
    past = {"pause": "paused", "resume": "resumed", "remove": "removed"}[action]
    return f"`{found.code}` is {past}."


def no_such(code: str) -> str:
    return f"there is no schedule `{code[:20]}`; `list` shows them"


def line(found: Schedule) -> str:
    due = moment(found.next_due, found.when.zone) if found.next_due is not None else "never"
    state = f"next {due}" if found.status == "active" else found.status
    return f"- `{found.code}` {in_words(found.when)}: {' '.join(found.text.split())[:200]} ({state})"


def moment(at: int, zone: str) -> str:
    """A time by the clocks of a zone; ``at`` in microseconds since the epoch."""
    return f"{recurrence.at_local(at, zone):%a %Y-%m-%d %H:%M} {zone}"
