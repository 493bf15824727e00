"""What happens with an approval's answer, by kind: the owner of each kind acts inside the deciding transaction.

A kind that is not here needs nothing but the answer: whoever asked consumes it. Used by the gateway and the command
line alike.
"""

from __future__ import annotations

from sandbox_runner import budget
from sandbox_runner.egress import asking
from workspace_store import erasure
from workspace_store.approvals import Hooks

HOOKS: Hooks = {
    asking.KIND: asking.decided,
    budget.KIND: budget.decided,
    erasure.APPROVAL_KIND: erasure.decided,
}
