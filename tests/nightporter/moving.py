"""Two installations without their services, and a person in one of them who has something of everything."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy
import zstandard
from sqlalchemy import Column, Connection, Table, insert, select, update

from identity import forgetting, luggage, moves, users
from identity.users import Claim, User
from nightporter import signing
from nightporter.moving import arriving, departing, tokens
from nightporter.moving.arriving import Arrived, Wanted
from nightporter.moving.installation import Installation
from workspace_store import inbox_counts, journal, memory, principal, tenancy
from workspace_store.database import Database, now_us
from workspace_store.journal import Event
from workspace_store.storage import Storage

ANN = Claim("telegram", "7", "5", "Ann", "platform")
WORD = "xyzzyheron"
ADDRESS = '{"channel":"local","account":"","conversation":"ann","thread":""}'
WORDS = {
    "envelope": "{}", "content": "{}", "reply": "{}", "request": "{}", "environment": "{}", "moved": "{}",
    "choices": "[]", "left": ADDRESS, "place": ADDRESS, "spec": "0 7 * * *", "zone": "UTC",
}  # fmt: skip
ROW = dict[str, Any]
STATUS = {"outbox": "queued", "approval": "pending", "inbox": "pending", "attachment": "waiting", "effect": "settled",
          "schedule": "active"}  # fmt: skip


def installation(folder: Path, url: str, storage: Storage | None = None) -> Installation:
    folder.mkdir(parents=True, exist_ok=True)
    storage = storage or Storage(folder, f"file://{folder}/volumes")
    return Installation(Database(url), folder, storage, signing.public_key(folder), folder.name)


def settle_in(house: Installation, claim: Claim = ANN) -> User:
    """A person with a row in every table, a file and a blob."""
    user = house.database.write_now(lambda connection: users.create(connection, claim, "member"))
    house.database.write_now(lambda connection: _fill(connection, user.id))
    house.blobs.put(user.id, WORD.encode())
    with house.storage.volumes().open(user.id) as volume:
        volume.follow(0)
        volume.claim("tests 0")
        (volume.workspace / "gold.txt").write_text(WORD)
        (volume.home / ".nightporter").mkdir()
        for number in range(3):
            (volume.workspace / "count").write_text(str(number))
            volume.hand_in(volume.snapshot(number))
        marker = volume.marker()
    bound = {
        "volume_id": marker.volume,
        "generation": 3,
        "state_key": "ab" * 32,
        "state_high": 9,
        "state_pin": "cd" * 32,
    }
    house.database.write_now(
        lambda c: c.execute(update(principal.principal).where(principal.principal.c.id == user.id).values(**bound))
    )
    return user


def _fill(connection: Connection, owner: UUID) -> None:
    for number in range(5):
        journal.append(connection, owner, [Event("model.responded", {"text": f"{WORD} {number}"})], under=None)
    memory.write_note(connection, owner, f"note:{owner.hex}", f"the codeword is {WORD}", None)
    for _ in range(2):
        seq, _ = inbox_counts.received(connection, owner)
        connection.execute(insert(_table("inbox")).values(**_row(_table("inbox"), owner, seq)))
    for found in luggage.goes():
        if found.name not in ("principal", "user_account", "journal_event", "journal_payload", "inbox", "merge"):
            alone = [column.name for column in found.primary_key.columns] == ["principal"]
            for number in (1,) if alone else (1, 2, 3):
                connection.execute(insert(found).values(**_row(found, owner, number)))


def _table(name: str) -> Table:
    return next(found for found in luggage.goes() if found.name == name)


def _row(found: Table, owner: UUID, number: int) -> ROW:
    """A row of somebody's, with something in every column."""
    values = {column.name: _value(found, column, owner, number) for column in found.columns}
    if found.autoincrement_column is not None:
        values.pop(found.autoincrement_column.name)
    return values


def _value(found: Table, column: Column[Any], owner: UUID, number: int) -> Any:
    kind = column.type.impl_instance if isinstance(column.type, sqlalchemy.TypeDecorator) else column.type
    if column.name == "status":
        return STATUS[found.name]
    if isinstance(kind, sqlalchemy.Uuid):
        mine = column.name in (*forgetting.OWNED_BY, *forgetting.DONE_BY)
        return owner if mine else uuid4()
    if isinstance(kind, sqlalchemy.Boolean):
        return False
    if isinstance(kind, sqlalchemy.Integer):
        return number
    if isinstance(kind, sqlalchemy.Float):
        return 0.5
    if isinstance(kind, sqlalchemy.LargeBinary):
        return zstandard.ZstdCompressor().compress(f"{number}\t[]".encode())
    if column.name == "messages":
        return "[]"
    if column.name in WORDS:
        return WORDS[column.name]
    return f"{found.name}-{column.name}-{owner}-{number}"


def grant(old: Installation, new: Installation, user: UUID, *, seconds: float = 3600, source: str = "") -> str:
    """A grant of the new installation's."""
    until = now_us() + int(seconds * 1e6)
    made = tokens.Grant(uuid4(), user, source or old.key, new.key, "new.example", until)
    new.database.write_now(lambda connection: moves.offer(connection, made.id, user, made.source, until))
    return tokens.make_grant(new.home, made)


def leave(old: Installation, user: User, file: Path, code: str) -> departing.Packed:
    found = old.database.read_now(lambda connection: users.get(connection, user.id))
    assert found is not None
    return departing.depart(old, found, file, code, 0)


def arrive(new: Installation, file: Path, **wanted: Any) -> Arrived:
    return arriving.arrive(new, Wanted(file, **wanted))


def rows(house: Installation, owner: UUID) -> dict[str, list[ROW]]:
    """All that goes along of somebody, without what belongs to a place."""

    def query(connection: Connection) -> dict[str, list[ROW]]:
        packed = {name: list(found) for name, found in luggage.pack(connection, [owner])}
        return {name: [_portable(name, row) for row in found] for name, found in packed.items()}

    return house.database.read_now(query)


def _portable(name: str, row: ROW) -> ROW:
    here = {"principal": ("epoch", "sandbox_epoch", "head_seq", "head_hash"), "identity_event": ("number",),
            "outbox": ("number",), "effect": ("number",), "generation": ("manifest_digest",),
            "memory_session": ("due_at",)}  # fmt: skip
    return {key: value for key, value in row.items() if key not in here.get(name, ())}


def is_alive(house: Installation, user: UUID) -> bool:
    """Whether somebody acts for them here."""

    def query(connection: Connection) -> bool:
        columns = (principal.principal.c.away, principal.principal.c.closed)
        row = connection.execute(select(*columns).where(principal.principal.c.id == user)).one_or_none()
        return row is not None and not row.away and not row.closed

    return house.database.read_now(query)


def gold(house: Installation, user: UUID) -> str:
    """What is in the file that was planted, where the volume is the one that the database names."""
    held = house.database.read_now(lambda connection: tenancy.look(connection, user))
    with house.storage.volumes().open(user) as volume:
        volume.follow(held.generation)
        assert volume.marker().volume == held.volume_id
        assert volume.marker().generation == held.generation
        return volume.read_file("workspace/gold.txt").decode()


def files_of(*folders: Path) -> list[str]:
    """What is in folders of a house that are not its database."""
    return sorted(itertools.chain.from_iterable((str(one) for one in folder.glob("*")) for folder in folders))


Make = Callable[[str], Installation]
