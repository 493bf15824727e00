"""Answering an approval: by command, button, reaction, mail or the command line, all meet here.

In one transaction the answer is recorded, the kind's owner acts, the question says what was decided, and what waited
for it gets an inbox row (once for each approval) that starts a turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from identity.names import harmless, speaker
from identity.users import Claim
from router import own_rows, texts
from router.envelope import Envelope
from workspace_store import approvals, principal
from workspace_store.approvals import Approval, Decider, Decision, Hooks, Verdict


@dataclass(frozen=True)
class Woken:
    """A principal whose inbox got a row at intake, and who serves it now.

    ``manager``: who keeps its sandbox warm, where that is known.
    """

    principal: UUID
    owner: str | None
    manager: str | None = None


@dataclass(frozen=True)
class Named:
    """Who answers, under a name that others and the agent may read."""

    id: UUID
    display_name: str
    role: str


@dataclass(frozen=True)
class Answered:
    """What became of an answer: for its sender to read, and whose bell to ring after the commit."""

    text: str
    decision: Decision
    woken: tuple[Woken, ...] = field(default=())


def answer(
    connection: Connection,
    code: str | UUID,
    decider: Decider | None,
    verdict: Verdict,
    *,
    via: str,
    hooks: Hooks,
    choice: str = "",
    needs_token: bool = False,
    instead: str = "",
) -> Answered:
    """Answer an approval; what does not decide it is explained. ``instead``: what is approved instead."""
    named = Named(decider.id, harmless(decider.display_name), decider.role) if decider else None
    decision = approvals.decide(
        connection, code, named, verdict, via=via, choice=choice, needs_token=needs_token, hooks=hooks,
        instead=instead,
    )  # fmt: skip
    text = texts.answered(decision, verdict, choice)
    found = decision.approval
    if decision.outcome != "decided" or found is None or not found.resumes:
        return Answered(text, decision)
    return Answered(text, decision, (_resume(connection, found),))


def _resume(connection: Connection, found: Approval) -> Woken:
    """Queue the turn that goes on with what was decided."""
    where = found.place.address
    in_room = found.decided_by is not None and principal.kind(connection, found.principal) == "room"
    told = Envelope(
        channel=where.channel,
        account=where.account,
        external_id=f"approval:{found.id.hex}",
        sender=Claim(where.channel, where.account, "", found.decided_by_name, ""),
        conversation=where.conversation,
        thread=where.thread,
        text=texts.decided_for_the_engine(found),
        reply=found.place.reply,
        speaker=speaker(found.decided_by_name, found.decided_by) if in_room and found.decided_by else "",
    )
    _, owner = own_rows.put(connection, found.principal, "approval", found.decided_by, told)
    return Woken(found.principal, owner)


def as_json(found: Approval) -> dict[str, Any]:
    """An approval for programs to read. Times in Unix seconds."""
    return {
        "id": str(found.id), "code": found.code, "kind": found.kind, "text": found.text, "status": found.status,
        "principal": str(found.principal), "asked": str(found.asked), "role": found.role, "request": found.request,
        "request_hash": found.request_hash, "choices": [choice.name for choice in found.choices],
        "choice": found.choice, "channel": found.place.address.channel, "requested_at": found.requested_at / 1e6,
        "expires_at": found.expires_at / 1e6, "decided_at": found.decided_at and found.decided_at / 1e6,
        "decided_by": found.decided_by and str(found.decided_by), "decided_via": found.decided_via,
    }  # fmt: skip
