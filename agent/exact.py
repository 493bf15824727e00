"""What stays retrievable word for word: a turn, whole, however long ago it was folded; and what was promised."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection

from agent import task_texts, texts
from workspace_store import checkpoints, commitments, erasure, principal

PROMISES = frozenset({"promises", "commitments"})
"""Asked for by these words, all that stand are told, also those that a context has no room for."""


def promises(connection: Connection, owner: UUID) -> list[str]:
    return [task_texts.standing_commitment(one) for one in commitments.standing(connection, owner)]


def whole_turn(connection: Connection, owner: UUID, name: str) -> str | None:
    """What was said and done in a turn, word for word, by its id or the beginning of it; None: there is none."""
    scope = principal.scope(connection, owner)
    for target in erasure.named(connection, owner, name):
        if target.kind == "turn":
            return texts.whole_turn(target.id, target.at, checkpoints.messages_of(connection, scope, target.id))
    return None
