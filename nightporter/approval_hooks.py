"""What happens with an approval's answer, by kind: the owner of each kind acts inside the deciding transaction.

A kind that is not here needs nothing but the answer: whoever asked consumes it. Used by the gateway and the command
line alike.
"""

from __future__ import annotations

from sandbox_runner import budget, gating
from sandbox_runner.egress import asking
from workspace_store import erasure
from workspace_store.approvals import Hooks, Kind

HOOKS: Hooks = {
    asking.KIND: Kind(asking.decided, asking.edited),
    budget.KIND: Kind(budget.decided, budget.edited),
    gating.KIND: Kind(edit=gating.edited),
    erasure.APPROVAL_KIND: erasure.decided,
}
