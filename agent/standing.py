"""What stands: open tasks, promises that were not kept yet, questions that wait for an answer.

It is told word for word in every context, right after role and policy, whatever is folded. Where it alone would fill
the window, promises that were only noticed in talk make room first, and it is said that they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlalchemy import Connection

from agent import task_texts as texts
from agent.trajectory import count_tokens
from workspace_store import approval_rows, commitments, tasks
from workspace_store.approval_rows import Approval
from workspace_store.commitments import Commitment
from workspace_store.tasks import Task

STANDING_SHARE = 30
"""Per cent of the window that what stands may take before it makes room."""


@dataclass(frozen=True)
class Standing:
    """``left_out``: promises noticed in talk for which there is no room."""

    tasks: Sequence[Task] = ()
    commitments: Sequence[Commitment] = ()
    approvals: Sequence[Approval] = ()
    left_out: int = 0
    brief: bool = False
    """Plans are told by their next step only."""

    def lines(self) -> list[str]:
        """What a context tells of it."""
        found = [texts.standing_task(task, brief=self.brief) for task in self.tasks]
        found += map(texts.standing_commitment, self.commitments)
        found += map(texts.standing_approval, self.approvals)
        return [*found, texts.left_out(self.left_out)] if self.left_out else found

    def must_hold(self) -> list[str]:
        """The words that every context must have: what was promised, what waits, what is aimed at."""
        return [
            *(texts.one_line(task.goal) for task in self.tasks),
            *(commitment.body for commitment in self.commitments),
            *(texts.one_line(approval.text) for approval in self.approvals),
            *(approval.code for approval in self.approvals),
        ]


NOTHING = Standing()


def read(connection: Connection, owner: UUID, window: int) -> Standing:
    """What stands for an owner, for a context of ``window`` tokens."""
    found = Standing(
        tasks.open_tasks(connection, owner),
        commitments.standing(connection, owner),
        approval_rows.waiting(connection, owner),
    )
    return _fitted(found, window * STANDING_SHARE // 100)


def _fitted(found: Standing, budget: int) -> Standing:
    left = budget - sum(map(count_tokens, found.lines()))
    if left >= 0:
        return found
    brief = replace(found, brief=True)
    left = budget - sum(map(count_tokens, brief.lines()))
    kept: list[Commitment] = []
    for commitment in brief.commitments:
        if left < 0 and commitment.noticed:
            left += count_tokens(texts.standing_commitment(commitment))
        else:
            kept.append(commitment)
    return replace(brief, commitments=kept, left_out=len(brief.commitments) - len(kept))
