"""Asking a person whether a host may be reached, and what their answer does.

At most one question a host is open, and a few a principal: a program that tries a thousand hosts does not ask a
thousand times.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection

from sandbox_runner.egress import names, texts
from sandbox_runner.egress.names import BadHost
from sandbox_runner.egress.policy import granted_port
from workspace_store import approvals, effects, egress_grants, inbox, principal
from workspace_store.approvals import ALWAYS, DENY, Approval, BadEdit, Choice, Decider, Revised
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.tenancy import StaleTenancy, Tenancy

log = structlog.get_logger()

KIND = "egress.host"
MOST_OPEN = 5
ASK_SECONDS = 86400.0
ASK_AGAIN_SECONDS = 2.0
MOST_KNOWN = 1000
HOUR_SECONDS = 3600.0
DENIED_SECONDS = 3600.0
"""How long a "no" holds before the same host may be asked about again."""

FOR_AN_HOUR = Choice("hour", "Allow for 1 hour", "approve", "Allowed for 1 hour")
FOR_EVER = Choice(ALWAYS.name, "Always allow", "approve", "Allowed always")
NO = Choice(DENY.name, "No", "deny", "Refused")


@dataclass(frozen=True)
class Asker:
    """``resumes``: the answer starts a turn, for an engine that can go on with it."""

    database: Database
    resumes: bool = False
    _asked: dict[tuple[UUID, str, int], tuple[float, str | None]] = field(default_factory=dict)

    async def __call__(self, tenancy: Tenancy, host: str, port: int) -> str | None:
        """The code of the question that is open for this host; None: nobody can be asked now."""
        key, now = (tenancy.principal, host, port), time.monotonic()
        known = self._asked.get(key)
        if known is not None and now - known[0] < ASK_AGAIN_SECONDS:
            # A program that goes on trying must not keep the database busy.
            return known[1]
        try:
            code = await self.database.write(lambda connection: self._ask(connection, tenancy, host, port))
        except (DatabaseUnavailable, StaleTenancy) as error:
            log.warning("could not ask for a host", host=host, reason=str(error))
            return None
        if len(self._asked) >= MOST_KNOWN:
            self._asked.clear()
        self._asked[key] = (now, code)
        return code

    def _ask(self, connection: Connection, tenancy: Tenancy, host: str, port: int) -> str | None:
        owner, request = tenancy.principal, {"host": host, "port": granted_port(port)}
        open_now = [each for each in approvals.waiting(connection, owner) if each.kind == KIND]
        for each in open_now:
            if each.principal == owner and each.request == request:
                return each.code
        place = approvals.place_of(connection, owner)
        if len(open_now) >= MOST_OPEN or place is None:
            return None
        turn = inbox.running_turn(connection, owner)
        made = approvals.request(
            connection,
            key=f"egress:{owner.hex}:{uuid4().hex}",
            kind=KIND,
            principal=owner,
            at=place,
            request=request,
            text=texts.question(host, port),
            choices=(FOR_AN_HOUR, FOR_EVER, NO),
            # In a room several speak, and what is allowed there is allowed to all of them.
            role="admin" if principal.kind(connection, owner) == "room" else "asked",
            turn=turn,
            message=_message(connection, owner) if turn else None,
            resumes=self.resumes,
            seconds=ASK_SECONDS,
            under=tenancy,
        )
        return made.code


def edited(found: Approval, words: str) -> Revised:
    """Another host, or another port of it. Raises BadEdit."""
    try:
        host, port = names.split(words.strip(), 443)
    except BadHost as error:
        raise BadEdit(str(error)) from error
    return Revised({"host": host, "port": granted_port(port)}, texts.question(host, port))


def _message(connection: Connection, owner: UUID) -> UUID | None:
    heard = inbox.where_heard(connection, owner)
    return heard.id if heard else None


def decided(connection: Connection, found: Approval, decider: Decider | None) -> str:
    """Act on an answer, in the transaction that records it: the very next request is judged by it."""
    request: dict[str, Any] = found.request
    host, port = str(request["host"]), int(request["port"])
    approved = found.status == "approved"
    seconds = DENIED_SECONDS if not approved else None if found.choice == FOR_EVER.name else HOUR_SECONDS
    by = decider.id if decider else None
    egress_grants.give(connection, found.principal, host, port, allowed=approved, seconds=seconds, by=by)
    effects.tell_refused(connection, found.principal, host)
    if not approved:
        return texts.now_refused(host)
    approvals.consume(connection, found.id, request)
    return texts.now_allowed(host, port)
