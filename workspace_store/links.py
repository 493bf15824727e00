"""Links of the chain and what they say, written for any number of principals at once.

On PostgreSQL that is one statement, whatever is written: each one costs a round trip, under the lock of the principal.
Only ``workspace_store.journal`` calls this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text, update

from workspace_store.principal import Head, principal
from workspace_store.statements import Prepared

_EVENT = {
    "principal": "uuid", "seq": "bigint", "turn": "uuid", "epoch": "bigint", "kind": "varchar", "at": "bigint",
    "payload_hash": "varchar", "prev_hash": "varchar", "hash": "varchar",
}  # fmt: skip
_SAID = {"salt": "text", "body": "text"}


def _typed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _json(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(rows, default=_id, ensure_ascii=False, separators=(",", ":"))


def _id(value: object) -> str:
    if not isinstance(value, UUID):
        raise TypeError(f"{type(value).__name__} is no part of a link")
    return value.hex


# One value in JSON, which its own encoder makes: arrays of the driver are made a value at a time, in Python.
_WRITE = Prepared(
    text(
        f"""WITH given AS (
        SELECT * FROM json_to_recordset(CAST(:links AS json)) AS one ({_typed({**_EVENT, **_SAID})})
    ), chained AS (
        INSERT INTO journal_event ({", ".join(_EVENT)}) SELECT {", ".join(_EVENT)} FROM given
    ), said AS (
        INSERT INTO journal_payload (principal, seq, salt, body)
        SELECT principal, seq, decode(salt, 'hex'), body FROM given
    )
    UPDATE principal SET head_seq = head.seq, head_hash = head.hash
    FROM json_to_recordset(CAST(:heads AS json)) AS head ({_typed({"id": "uuid", "seq": "bigint", "hash": "varchar"})})
    WHERE principal.id = head.id"""
    )
)
_ADVANCE = (
    update(principal)
    .where(principal.c.id == bindparam("of"))
    .values(head_seq=bindparam("to_seq"), head_hash=bindparam("to_hash"))
)


@dataclass(frozen=True)
class Link:
    """A link and its payload, each as the columns of its row."""

    event: Mapping[str, Any]
    salt: bytes
    body: str


def write(connection: Connection, tables: tuple[Any, Any], links: Sequence[Link], heads: Mapping[UUID, Head]) -> None:
    """Write the links and name the new heads, under the locks of their principals. ``tables``: events, payloads."""
    if connection.dialect.name == "postgresql":
        given = [{**link.event, "salt": link.salt.hex(), "body": link.body} for link in links]
        ends = [{"id": owner, "seq": seq, "hash": link} for owner, (seq, link) in heads.items()]
        _WRITE(connection, {"links": _json(given), "heads": _json(ends)})
        return
    events, payloads = tables
    connection.execute(events.insert(), [dict(link.event) for link in links])
    said = [
        {"principal": link.event["principal"], "seq": link.event["seq"], "salt": link.salt, "body": link.body}
        for link in links
    ]
    connection.execute(payloads.insert(), said)
    connection.execute(
        _ADVANCE, [{"of": owner, "to_seq": head[0], "to_hash": head[1]} for owner, head in heads.items()]
    )
