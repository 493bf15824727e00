"""Saying what was scheduled, when it is due: an inbox row of its person's words, and the schedule moved on, in one
transaction. The sweeper of every runner looks each second; whoever is quicker says it, once.

What was missed (nothing ran here at the time) is said once, late, with how much was missed; or not at all, where its
person chose so. While the run before is still being worked on, the next one is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from identity import reach, users
from identity.names import speaker
from identity.users import Claim, User
from router import own_rows
from router import schedule_texts as texts
from router.actions import Woken
from router.envelope import Envelope
from router.sweeper import Chore
from workspace_store import inbox, journal, principal, schedules
from workspace_store.approvals import Place
from workspace_store.database import database_now_us
from workspace_store.journal import Event
from workspace_store.schedule_limits import ScheduleLimits
from workspace_store.schedules import Schedule

log = structlog.get_logger()

KIND = "schedule"


@dataclass(frozen=True)
class Firing:
    """Fires what is due."""

    limits: ScheduleLimits

    @property
    def chore(self) -> Chore:
        return Chore(schedules.any_due, self.fire_due)

    def fire_due(self, connection: Connection) -> list[Woken]:
        """Say all that is due now, and move it on; whose inbox got a row."""
        now = database_now_us(connection)
        # In one order, as whoever locks several principals (``principal.in_order``).
        due = sorted(schedules.due(connection, now), key=lambda found: found.principal)
        return [woken for found in due if (woken := self._fire(connection, found, now))]

    def _fire(self, connection: Connection, found: Schedule, now: int) -> Woken | None:
        assert found.next_due is not None
        times, last = found.when.between(found.next_due, now)
        late = now - last > self.limits.late_seconds * 1_000_000
        note = self._hindrance(connection, found, late=late)
        if not schedules.advance(connection, found, last, found.when.after(now), note):
            return None
        if note:
            _journal(connection, found, "schedule.skipped", {"due": last, "reason": note})
            return None
        key = f"schedule:{found.id.hex}:{found.next_due}"
        context = texts.fired(found, last, times - 1 if found.missed == "catch-up" else 0, late=late)
        return say(connection, found, key, context, {"due": last, "missed": times - 1})

    def _hindrance(self, connection: Connection, found: Schedule, *, late: bool) -> str:
        """Why it is not said now, for people; empty: nothing is in the way."""
        if late and found.missed == "skip":
            return texts.MISSED
        before = inbox.get(connection, found.last_row) if found.last_row else None
        if before is not None and before.status not in inbox.FINAL:
            return texts.STILL_AT_WORK
        who = _speaker(connection, found)
        if who is None or who.blocked:
            return texts.NOBODY_SAYS_IT
        return "" if _place(connection, found) else texts.NOWHERE_TO_ANSWER


def say(connection: Connection, found: Schedule, key: str, context: str, body: dict[str, int]) -> Woken | None:
    """Put the words of a schedule into its person's inbox; the same ``key`` again says nothing. None: nobody says it,
    or nowhere."""
    owner, who, place = schedules.root(connection, found.principal), _speaker(connection, found), None
    if who is not None and not who.blocked and inbox.find(connection, key) is None:
        place = _place(connection, found)
    if place is None or who is None:
        return None
    to, in_room = place.address, owner != who.id
    told = Envelope(
        channel=to.channel,
        account=to.account,
        external_id=key,
        sender=Claim(to.channel, to.account, "", who.display_name, ""),
        conversation=to.conversation,
        thread=to.thread,
        text=found.text,
        context=context,
        shared=in_room,
        reply=place.reply,
        speaker=speaker(who.display_name, who.id) if in_room else "",
    )
    identifier, runner = own_rows.put(connection, owner, KIND, who.id, told)
    schedules.said(connection, found, identifier)
    _journal(connection, found, "schedule.fired", {"message": identifier.hex, **body})
    return Woken(owner, runner)


def run_now(connection: Connection, found: Schedule, key: str) -> Woken | None:
    """Say it now, whatever its time is; ``key`` names who asked, so that asking once says it once."""
    return say(connection, found, f"schedule:{found.id.hex}:now:{key}", texts.run_now(found), {})


def _speaker(connection: Connection, found: Schedule) -> User | None:
    """Whose word it is, by who they are now."""
    return users.get(connection, schedules.root(connection, found.user))


def _place(connection: Connection, found: Schedule) -> Place | None:
    """Where it is answered: where it was made, as long as its person is known there; else where they wrote last."""
    owner = schedules.root(connection, found.principal)
    if principal.kind(connection, owner) == "room":
        return found.place
    to = found.place.address
    if not found.to_last and found.external_id:
        known = users.by_identity(connection, Claim(to.channel, to.account, found.external_id))
        if known is not None and known.id == owner:
            return found.place
    last = reach.last(connection, owner)
    return Place(last, {}) if last is not None else None


def _journal(connection: Connection, found: Schedule, kind: str, more: dict[str, object]) -> None:
    body = {"schedule": found.id.hex, "code": found.code, **more}
    journal.append(connection, schedules.root(connection, found.principal), [Event(kind, body)], under=None)
