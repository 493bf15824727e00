"""The words of a briefing: for the agent and for people alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from workspace_store.approvals import Approval

UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))


def span(seconds: float) -> str:
    """A time that has passed, in its largest unit."""
    for size, unit in UNITS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"


def clock(now: datetime) -> str:
    return f"It is {now:%A %Y-%m-%d %H:%M} UTC."


def channel(name: str, thread: bool) -> str:
    return f"Channel: {name}{', in a thread' if thread else ''}."


def directory(path: str) -> str:
    return f"Directory: {path}"


def tasks(running: Sequence[str]) -> str:
    return f"Background tasks: {len(running)} running ({'; '.join(running)})."


def budget(micro_usd: int, daily_usd: float) -> str:
    return f"Budget: {dollars(micro_usd)} of {dollars(daily_usd * 1e6)} used today."


def dollars(micro_usd: float) -> str:
    """A sum in cents, and what is less than ten of them to the last digit that says something."""
    usd = micro_usd / 1e6
    if usd >= 0.1 or not micro_usd:
        return f"${usd:,.2f}"
    whole, _, part = f"{usd:.6f}".partition(".")
    return f"${whole}.{part.rstrip('0').ljust(2, '0')}"


def last_turn(at: int, now: int) -> str:
    return f"The last turn ended {span((now - at) / 1e6)} ago."


def asked(text: str) -> str:
    return f"asked: {text}"


def answered(text: str) -> str:
    return f"answered: {text}"


def done(text: str) -> str:
    return f"Done last: {text}"


def planned(text: str) -> str:
    return f"Planned: {text}"


def promised(text: str) -> str:
    return f"Promised: {text}"


def waiting(text: str) -> str:
    return f"Waiting: {text}"


def changed(text: str) -> str:
    return f"Since then: {text}"


def more(count: int) -> str:
    return f"and {count} more before that"


def approval(found: Approval) -> str:
    return f"an answer to approval {found.code} ({' '.join(found.phrase.split())[:160]})"


def task_ended(body: Mapping[str, Any]) -> str:
    code = body.get("exit_code")
    command = " ".join(map(str, body.get("argv") or ()))[:100]
    how = "ended" if code is None else f"ended with {code}"
    return f"background task {body.get('task')} {how}{f': {command}' if command else ''}"


def slept(body: Mapping[str, Any]) -> str:
    count = int(body.get("files_changed") or 0)
    return f"{count} files changed while no turn ran" if count else ""


def restored(body: Mapping[str, Any]) -> str:
    return f"the workspace was set back; {body.get('changed') or 0} files changed"


def approval_decided(body: Mapping[str, Any]) -> str:
    return f"approval {body.get('code')} was answered: {body.get('verdict')}"


def effect(body: Mapping[str, Any]) -> str:
    if body.get("port") == 0:
        return f"nobody saw how a call of {body.get('host')} ended, so it may have been done"
    return f"a {body.get('method', 'request')} request to {body.get('host', 'a host')} ended"


def linked(body: Mapping[str, Any]) -> str:
    return f"{body.get('identity') or 'another channel'} was linked"


def unlinked(body: Mapping[str, Any]) -> str:
    return f"{body.get('identity') or 'a channel'} was unlinked"


def set_aside(body: Mapping[str, Any]) -> str:
    return "a message was set aside: it had ended its runner three times"


def reply_failed(body: Mapping[str, Any]) -> str:
    return "a reply could not be delivered"


def noted(body: str) -> str:
    return f"noted: {body}"
