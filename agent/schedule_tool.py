"""Scheduling for a person: what they said themselves is free, anything else they are asked about first.

A schedule speaks in its person's name for good: words that came from a page, a file or the model's own mind must not
become theirs by it. Free is what is made of the words they wrote in this very turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import Connection

from agent import own_words, schedule_texts, texts
from agent.tool import Arguments, Ask, Refuse, Tool, ToolHost, ToolResult, Write
from identity import users
from workspace_store import inbox, schedules, short_codes
from workspace_store.approvals import Place
from workspace_store.database import database_now_us
from workspace_store.journal import Event
from workspace_store.outbox import Address
from workspace_store.recurrence import BadTime
from workspace_store.schedule_limits import ScheduleLimits
from workspace_store.schedule_words import in_words, read
from workspace_store.schedules import Schedule, Wanted

NAME = "schedule"
_WORD = re.compile(r"\w+", re.UNICODE)
_SMALL = frozenset(
    ("a", "an", "the", "to", "and", "or", "of", "for", "in", "on", "at", "me", "my", "i", "you", "your", "it", "is",
     "are", "be", "do", "please", "that", "this")
)  # fmt: skip


class ScheduleArguments(Arguments):
    action: Literal["list", "add", "pause", "resume", "remove"]
    when: str = Field(
        "",
        max_length=200,
        description="For add: `every day at 7:30 in Europe/Berlin`, `every 2 hours`, `weekdays at 9am`, "
        "`at 2026-12-01 09:00`, `in 20 minutes`, `cron 30 7 * * mon-fri`.",
    )
    text: str = Field(
        "", max_length=4000, description="For add: what is said then in the person's name; in their own words."
    )
    missed: Literal["catch-up", "skip"] = Field("catch-up", description="What was missed is said once, late; or not.")
    id: str = Field("", max_length=20, description="For pause, resume and remove.")


async def _before(host: ToolHost, given: Mapping[str, Any]) -> Ask | Refuse | None:
    """Free is looking, and what the person's own words in this turn say."""
    if given["action"] == "list":
        return None
    mine = await host.read(lambda connection: own_words.of_turn(connection, host.principal, host.turn))
    if given["action"] != "add":
        code = str(given.get("id", "")).upper()
        return None if own_words.names(mine, code) else Ask(schedule_texts.may_change(str(given["action"]), code))
    text, when = str(given.get("text", "")), str(given.get("when", ""))
    return None if _is_said(mine, text) else Ask(schedule_texts.may_add(when, text))


def _is_said(mine: list[str], text: str) -> bool:
    """Whether words are made of what a person wrote: each that says something is there."""
    there = {word.lower() for said in mine for word in _WORD.findall(said)}
    return all(word.lower() in there or word.lower() in _SMALL for word in _WORD.findall(text))


async def _run(limits: ScheduleLimits, host: ToolHost, call_id: str, given: Mapping[str, Any]) -> ToolResult:
    action = str(given["action"])
    if action == "list":
        found = await host.read(lambda connection: schedules.of(connection, host.principal))
        return ToolResult("\n".join(map(schedule_texts.line, found)) or schedule_texts.NONE)
    if action == "add":
        return await _add(limits, host, call_id, given)
    one: Schedule | None = await host.read(
        lambda connection: schedules.find(connection, host.principal, str(given.get("id", "")))
    )
    if one is None:
        return ToolResult(texts.refused(schedule_texts.no_such(str(given.get("id", "")))))
    change = {"pause": schedules.pause, "resume": schedules.resume, "remove": schedules.remove}[action]
    write = Write(lambda connection: change(connection, one), Event("schedule.asked", {"id": one.code, "to": action}))
    return ToolResult(schedule_texts.done(one, action), writes=(write,))


async def _add(limits: ScheduleLimits, host: ToolHost, call_id: str, given: Mapping[str, Any]) -> ToolResult:
    # The operator of the machine may have approved it: it is its person's all the same.
    user = host.here.user or (None if host.here.in_room else host.principal)

    def look(connection: Connection) -> tuple[Wanted, int]:
        understood = read(str(given.get("when", "")), database_now_us(connection), limits.zone)
        if understood.text:
            raise BadTime(f"`{understood.text[:60]}` in `when` is not understood")
        missed = understood.missed or given.get("missed", "catch-up")
        wanted = Wanted(understood.when, str(given.get("text", "")), missed, bool(understood.to_last))
        return wanted, schedules.check(connection, host.principal, wanted, limits)

    if user is None:
        return ToolResult(texts.refused(schedule_texts.NOBODYS))
    try:
        wanted, first = await host.read(look)
    except BadTime as error:
        return ToolResult(texts.refused(str(error)))
    code = _code(f"{host.turn.hex}:{call_id}")

    def add(connection: Connection) -> None:
        if schedules.by_code(connection, code) is None:
            place, external = _place(connection, host)
            schedules.add(connection, host.principal, user, wanted, place, external, limits, code=code, turn=host.turn)

    event = Event("schedule.asked", {"id": code, "to": "added", "when": in_words(wanted.when)})
    return ToolResult(schedule_texts.added(code, wanted.when, first), writes=(Write(add, event),))


def _place(connection: Connection, host: ToolHost) -> tuple[Place, str]:
    """Where the turn was asked for, and as whom its person speaks there."""
    at, row = host.here, inbox.where_heard(connection, host.principal)
    reply = inbox.reply_later(row) if row is not None else {}
    here = (at.channel, at.account)
    known = [one for one in users.identities(connection, host.principal) if (one.channel, one.account) == here]
    said = str((json.loads(row.envelope).get("sender") or {}).get("external_id", "")) if row is not None else ""
    external = said or (known[0].external_id if known else "")
    return Place(Address(at.channel, at.account, at.conversation, at.thread), reply), external


def _code(key: str) -> str:
    """The same call is the same schedule, however often it is run."""
    number = int.from_bytes(sha256(key.encode()).digest()[:8], "big")
    return "".join(short_codes.ALPHABET[number // 30**place % 30] for place in range(schedules.CODE_CHARACTERS))


def schedule(limits: ScheduleLimits) -> Tool:
    """The tool, within what the settings allow."""
    return Tool(
        NAME,
        "List, make, pause, resume or remove what is said to you again later in the person's name.",
        "idempotent",
        partial(_run, limits),
        arguments=ScheduleArguments,
        gate=_before,
    )


SCHEDULE = schedule(ScheduleLimits())
