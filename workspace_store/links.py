"""Links of the chain and what they say, written for any number of principals at once.

On PostgreSQL that is one statement, whatever is written: each one costs a round trip, under the lock of the principal.
Only ``workspace_store.journal`` calls this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, text, update

from workspace_store.principal import Head, principal

_EVENT = {
    "principal": "uuid", "seq": "bigint", "turn": "uuid", "epoch": "bigint", "kind": "varchar", "at": "bigint",
    "payload_hash": "varchar", "prev_hash": "varchar", "hash": "varchar",
}  # fmt: skip
_SAID = {"salt": "bytea", "body": "text"}


def _columns(types: Mapping[str, str]) -> str:
    return ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in types.items())


_WRITE = text(
    f"""WITH given AS (
        SELECT * FROM unnest({_columns({**_EVENT, **_SAID})}) AS one ({", ".join([*_EVENT, *_SAID])})
    ), chained AS (
        INSERT INTO journal_event ({", ".join(_EVENT)}) SELECT {", ".join(_EVENT)} FROM given
    ), said AS (
        INSERT INTO journal_payload (principal, seq, salt, body) SELECT principal, seq, salt, body FROM given
    )
    UPDATE principal SET head_seq = head.seq, head_hash = head.hash
    FROM unnest(CAST(:owners AS uuid[]), CAST(:seqs AS bigint[]), CAST(:hashes AS varchar[])) AS head (id, seq, hash)
    WHERE principal.id = head.id"""
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
        given: dict[str, Any] = {name: [link.event[name] for link in links] for name in _EVENT}
        given |= {"salt": [link.salt for link in links], "body": [link.body for link in links]}
        given |= {"owners": list(heads), "seqs": [head[0] for head in heads.values()]}
        connection.execute(_WRITE, {**given, "hashes": [head[1] for head in heads.values()]})
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
