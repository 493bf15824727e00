"""Calls of tools that act outside by themselves (a team's own), in the effect ledger.

Intended with the request, settled with the result; one whose end nobody saw is uncertain, for good. Arguments are known
there by their digest only.
"""

from __future__ import annotations

import hashlib
from uuid import UUID, uuid5

from sqlalchemy import Connection

from agent.engine import ToolCall
from agent.tool import ToolResult
from sandbox_runner import texts
from workspace_store import effects
from workspace_store.database import now_us, to_json
from workspace_store.effects import TOOLS, Effect, Settled
from workspace_store.principal import Lease

METHOD = "TOOL"


def identifier(turn: UUID, call: str) -> UUID:
    return uuid5(turn, f"effect:{call}")


def intend(connection: Connection, lease: Lease, turn: UUID, call: ToolCall) -> None:
    """With the request, so that there is no call which the ledger does not know."""
    row = Effect(
        identifier(turn, call.id), lease.principal, lease.epoch, turn, TOOLS, call.name, 0, METHOD,
        _digest(call.name), _digest(to_json(dict(call.arguments))), "intended", now_us(),
    )  # fmt: skip
    effects.write(connection, [row])


def settle(connection: Connection, turn: UUID, call: ToolCall, result: ToolResult) -> None:
    """With the result, which says the same to whoever asked."""
    status = result.data.get("status")
    effect, digest = identifier(turn, call.id), _digest(to_json(dict(call.arguments)))
    if status == "interrupted":
        effects.settle(connection, Settled(effect, "uncertain", None, texts.CALL_CUT_OFF, 0, 0, digest, now_us()))
        effects.tell(connection, [effect])
    else:
        reason = texts.CALL_FAILED if status == "failed" else ""
        effects.settle(connection, Settled(effect, "settled", None, reason, 0, 0, digest, now_us()))


def give_up(connection: Connection, turn: UUID) -> None:
    """The turn ends without them: nobody will see how they ended, and the next one is told."""
    for row in effects.of_turn(connection, turn):
        if row.proxy == TOOLS:
            effects.give_up(connection, row, texts.CALL_CUT_OFF)


def _digest(words: str) -> str:
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()
