"""What a person reads of schedules."""

from __future__ import annotations

from workspace_store import recurrence
from workspace_store.schedule_words import HOW, in_words
from workspace_store.schedules import Schedule

MISSED = "missed: nothing ran here at the time"
STILL_AT_WORK = "left out: the run before was still being worked on"
NOBODY_SAYS_IT = "left out: whose word it is may not speak now"
NOWHERE_TO_ANSWER = "left out: there is nowhere to answer it"
NONE = "You have no schedules. " + HOW
NONE_OF_ROOM = "This room has no schedules. " + HOW
FOR_MEMBERS = "Only members can change what is scheduled here."
USAGE = (
    "- `/schedule` lists what is scheduled\n"
    "- `/schedule add every day at 7:30 in Europe/Berlin: what is new?` schedules words of yours, which I then answer "
    "as if you said them; also `every 30 minutes`, `weekdays at 9am`, `every monday at 9:00`, `at 2026-12-01 09:00`, "
    "`in 20 minutes`, `cron 30 7 * * mon-fri`\n"
    "- before the colon you may say `skip missed` (what comes while I am off is left out; otherwise it is said once, "
    "late) and `to last` (answered where you wrote last, not here)\n"
    "- `/schedule pause ID`, `resume ID`, `run ID`, `remove ID`"
)
ASKED_ALREADY = "Its run before is still being worked on."


def no_such(code: str) -> str:
    return f"There is no schedule `{code[:40]}`; `/schedule` lists what is scheduled." if code else USAGE


def not_understood(reason: str) -> str:
    return f"I have scheduled nothing: {reason.rstrip('.')}."


def added(found: Schedule) -> str:
    where = "where you write last" if found.to_last else "here"
    return f"Scheduled as `{found.code}`: {in_words(found.when)}, answered {where}; next {_next(found)}."


def line(found: Schedule) -> str:
    """One schedule in a list."""
    words = " ".join(found.text.split())
    text = words if len(words) <= 100 else f"{words[:100]}…"
    state = f"next {_next(found)}" if found.status == "active" else found.status
    note = f" (last time {found.note})" if found.note else ""
    missed = ", skips what is missed" if found.missed == "skip" else ""
    return f"- `{found.code}` {in_words(found.when)}{missed}: {text} — {state}{note}"


def _next(found: Schedule) -> str:
    return moment(found.next_due, found.when.zone) if found.next_due is not None else "never"


def moment(at: int, zone: str) -> str:
    """A time by the clocks of a zone; ``at`` in microseconds since the epoch."""
    return f"{recurrence.at_local(at, zone):%a %Y-%m-%d %H:%M} {zone}"


def paused(found: Schedule) -> str:
    return f"`{found.code}` rests; `/schedule resume {found.code}` lets it go on."


def resumed(found: Schedule) -> str:
    return f"`{found.code}` goes on; next {_next(found)}."


def removed(found: Schedule) -> str:
    return f"`{found.code}` is removed."


def runs(found: Schedule) -> str:
    return f"`{found.code}` runs now."


def unchanged(found: Schedule) -> str:
    return f"`{found.code}` is {found.status}; nothing was changed."


def fired(found: Schedule, due: int, missed: int, *, late: bool) -> str:
    """What the agent is told about where the words come from."""
    told = f"From the schedule {found.code} ({in_words(found.when)}), due {moment(due, found.when.zone)}."
    if late:
        told += " It is late: nothing ran here at the time."
    if missed > 0:
        told += f" {missed} earlier {'time was' if missed == 1 else 'times were'} missed; this stands for all of them."
    return told


def run_now(found: Schedule) -> str:
    return f"From the schedule {found.code} ({in_words(found.when)}), run now because somebody asked for it."
