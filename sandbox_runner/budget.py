"""What a day of models may cost a principal: over it, an admin is asked whether to go on, and nothing is asked of a
model until then."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection

from sandbox_runner import texts
from workspace_store import approvals, spending
from workspace_store.approvals import Approval, BadEdit, Decider, Revised
from workspace_store.database import today
from workspace_store.principal import Lease

KIND = "budget"
MOST_USD = 1_000_000


class OverBudget(Exception):
    """The day's budget is used up; the text is for the person."""


def check(connection: Connection, lease: Lease, turn: UUID, message: UUID, daily_usd: float) -> str | None:
    """None within the budget; else what to tell the person; an admin is asked, once for each limit."""
    owner = lease.principal
    spent = spending.of_today(connection, owner)
    limit = int(daily_usd * 1e6) + spent.allowed_micro_usd
    if spent.micro_usd < limit:
        return None
    # So much that as much as a day's budget is left once it is allowed.
    more = spent.micro_usd - limit + int(daily_usd * 1e6)
    place = approvals.place_of(connection, owner)
    if place is None:
        return texts.over_budget(spent.micro_usd, None)
    made = approvals.request(
        connection,
        key=f"budget:{owner.hex}:{today()}:{limit}",
        kind=KIND,
        principal=owner,
        at=place,
        request={"day": today(), "micro_usd": more},
        text=texts.spend_more(more / 1e6),
        role="admin",
        turn=turn,
        message=message,
        resumes=True,
        under=lease,
    )
    return texts.over_budget(spent.micro_usd, made.code)


def edited(found: Approval, words: str) -> Revised:
    """Another sum. Raises BadEdit."""
    try:
        usd = float(words.strip().strip("$").replace(",", ""))
    except ValueError:
        usd = 0.0
    if not 0 < usd <= MOST_USD:
        raise BadEdit(texts.NO_SUM)
    return Revised({"day": str(found.request["day"]), "micro_usd": int(usd * 1e6)}, texts.spend_more(usd))


def decided(connection: Connection, found: Approval, decider: Decider | None) -> str:
    """So much more for the day it was asked for, in the transaction that records the answer."""
    if found.status != "approved" or not approvals.consume(connection, found.id, found.request):
        return ""
    spending.allow(connection, found.principal, str(found.request["day"]), int(found.request["micro_usd"]))
    return texts.MORE_ALLOWED
