"""Forgetting a person: every row that is theirs, wherever it is, and what they said in rooms.

The journal's chain rows stay, without what they say: it still verifies. Files and blobs are the caller's part. A
receipt says what was erased, when and by whom, signed with the house's own key; it names the person by UUID alone.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy
from sqlalchemy import BigInteger, Column, Connection, Table, Text, delete, or_, select, update
from sqlmodel import Field, SQLModel

import identity
import workspace_store
from identity import linking, pairing, users
from workspace_store import (
    archiving,
    attachments,
    changes,
    checkpoints,
    context_heads,
    erasure,
    facts,
    inbox,
    journal,
    memory_index,
)
from workspace_store.database import now_us, table, to_json
from workspace_store.erasure import FORGOTTEN
from workspace_store.principal import in_order
from workspace_store.principal import principal as principals

CHAIN = frozenset({"journal_event", "principal"})
"""What stays: links without words, and the head they end at."""
OWNED_BY = ("principal", "user", "maker", "kept", "absorbed", "asked")
"""Columns that say whose a row is."""
DONE_BY = ("actor", "asked_by", "given_by", "decided_by")
"""Columns that say who did something; it is left, and nobody named."""


class ReceiptRow(SQLModel, table=True):
    """``body``: canonical JSON of what was erased; ``signature``: Ed25519 over it, hex."""

    __tablename__ = "receipt"

    id: UUID = Field(primary_key=True)
    at: int = Field(sa_column=Column(BigInteger, nullable=False))
    body: str = Field(sa_column=Column(Text, nullable=False))
    signature: str


receipt = table(ReceiptRow)


@dataclass(frozen=True)
class Erased:
    """``rows``: table → how many; ``journals``: principal → (events, hash of the last), which still verify."""

    users: list[UUID]
    rows: dict[str, int]
    journals: dict[str, tuple[int, str]]

    def body(self, by: str, more: Mapping[str, Any]) -> str:
        """The words of a receipt."""
        return json.dumps(
            {
                "forgotten": [str(one) for one in self.users],
                "at": now_us(),
                "by": by,
                "rows": self.rows,
                "journals": {owner: list(head) for owner, head in self.journals.items()},
                **more,
            },
            sort_keys=True,
            separators=(",", ":"),
        )


def all_tables() -> list[Table]:
    """Every table there is, those first that others point to."""
    for package in (workspace_store, identity):
        for module in pkgutil.iter_modules(package.__path__):
            if not module.ispkg:
                importlib.import_module(f"{package.__name__}.{module.name}")
    return list(SQLModel.metadata.sorted_tables)


def erase(connection: Connection, owners: Sequence[UUID]) -> Erased:
    """Erase everything that is theirs. Their principals are closed, and nothing runs for them."""
    heads = {str(owner): journal.head(connection, owner) for owner in owners}
    rows: dict[str, int] = {"memory_search": _erase_search(connection, owners)}
    for known in [one for owner in owners for one in users.identities(connection, owner)]:
        _erase_traces(connection, known)
    rows["rooms"] = _erase_from_rooms(connection, owners)
    for found in reversed(all_tables()):
        condition = _whose(found, owners)
        if condition is not None and found.name not in CHAIN:
            rows[found.name] = connection.execute(delete(found).where(condition)).rowcount
        for name in DONE_BY:
            if name in found.c:
                nobody = {name: None, **({f"{name}_name": ""} if f"{name}_name" in found.c else {})}
                connection.execute(update(found).where(found.c[name].in_(owners)).values(nobody))
    connection.execute(
        update(principals)
        .where(in_order(principals.c.id.in_(owners)))
        .values(volume_id=None, generation=0, merged_into=None, closed=True)
    )
    return Erased(list(owners), {name: count for name, count in rows.items() if count}, heads)


def keep_receipt(connection: Connection, body: str, signature: str) -> UUID:
    identifier = uuid4()
    connection.execute(receipt.insert().values(id=identifier, at=now_us(), body=body, signature=signature))
    return identifier


def _whose(found: Table, owners: Sequence[UUID]) -> Any:
    """The condition that a row is somebody's; None for a table that has nobody's."""
    if found.name == "user_account":
        return found.c.id.in_(owners)
    named = [found.c[name].in_(owners) for name in OWNED_BY if name in found.c and _is_uuid(found.c[name])]
    return or_(*named) if named else None


def _is_uuid(column: Column[Any]) -> bool:
    return isinstance(column.type, sqlalchemy.Uuid)


def _erase_search(connection: Connection, owners: Sequence[UUID]) -> int:
    count = memory_index.remove(connection, owners)
    memory_index.scour(connection)
    return count


def _erase_traces(connection: Connection, known: users.Known) -> None:
    """What is kept under an identity's name, not its user's id."""
    sender = f"{known.channel}:{known.account}:{known.external_id}"
    connection.execute(delete(linking.code_guess).where(linking.code_guess.c.sender == sender))
    pairing.forget(connection, users.Claim(*known.key))
    said = linking.link_code.c.other.contains(json.dumps(known.external_id), autoescape=True)
    connection.execute(delete(linking.link_code).where(said))


def _erase_from_rooms(connection: Connection, owners: Sequence[UUID]) -> int:
    """What somebody said in rooms: the room's other words stay."""
    theirs = (inbox.inbox.c.actor.in_(owners), inbox.inbox.c.principal.not_in(owners))
    found = connection.execute(select(inbox.inbox.c.id, inbox.inbox.c.principal, inbox.inbox.c.envelope).where(*theirs))
    rows = found.all()
    for row in rows:
        blank = {**erasure.without_words(row.envelope), "speaker": ""}
        blank["sender"] = {**blank["sender"], "external_id": "", "display": "", "vouched_mail": ""}
        connection.execute(update(inbox.inbox).where(inbox.inbox.c.id == row.id).values(envelope=to_json(blank)))
        about = journal.payload.c.body.like(f'%"message":"{row.id.hex}"%')
        connection.execute(delete(journal.payload).where(journal.payload.c.principal == row.principal, about))
        changed = changes.message_change.c.message == row.id
        connection.execute(update(changes.message_change).where(changed).values(before="", after="", untold=False))
        # What was sent stays the room's; what a person called it does not.
        file = attachments.attachment.c.inbox == row.id
        connection.execute(update(attachments.attachment).where(file).values(name=FORGOTTEN, reference=""))
    for room in {row.principal for row in rows}:
        _erase_turns(connection, room, owners)
    return len(rows)


def _erase_turns(connection: Connection, room: UUID, owners: Sequence[UUID]) -> None:
    """Turns of a room that hold somebody's words: those words, and the extracts made of them."""
    turns = checkpoints.turn_record
    archiving.thaw_holding(connection, [room], [str(owner) for owner in owners])
    for owner in owners:
        holds = (turns.c.principal == room, turns.c.messages.like(f"%{owner}%"))
        columns = (turns.c.seq, turns.c.turn, turns.c.messages, turns.c.folded)
        for row in connection.execute(select(*columns).where(*holds)).all():
            messages = [
                {**said, "text": FORGOTTEN, "speaker": ""} if str(owner) in str(said.get("speaker", "")) else said
                for said in json.loads(row.messages)
            ]
            folded = FORGOTTEN if row.folded else None
            this = (turns.c.principal == room, turns.c.seq == row.seq)
            connection.execute(update(turns).where(*this).values(messages=to_json(messages), folded=folded))
            facts.write(connection, room, row.seq, ())
            memory_index.remove(connection, [room], str(row.turn))
            context_heads.drop(connection, room)
