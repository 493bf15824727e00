"""A bundle that was made to take somebody else's place: signed by whoever was granted, but not true.

An installation that may send one person may be hostile: of what it sends, nothing may touch anybody else.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import zstandard

from identity import users
from identity.moves import MoveRefused
from identity.users import Claim, User
from nightporter import signing
from nightporter.moving import departing, tokens
from nightporter.moving.installation import Installation
from tests.nightporter import moving
from workspace_store import archives, bundles, journal
from workspace_store.volumes import Volumes

VICTIM = Claim("telegram", "7", "666", "Victoria", "platform")
Members = dict[str, bytes]
Packed = tuple[User, Path]
Forge = Callable[[Members, dict[str, Any]], None]


@pytest.fixture
def houses(sqlite_template: bytes, tmp_path: Path) -> Iterator[tuple[Installation, Installation]]:
    made = []
    for name in ("old", "new"):
        (tmp_path / f"{name}.db").write_bytes(sqlite_template)
        made.append(moving.installation(tmp_path / name, f"sqlite:///{tmp_path / name}.db"))
    yield made[0], made[1]
    for house in made:
        house.database.close()


@pytest.fixture
def victim(houses: tuple[Installation, Installation]) -> User:
    return moving.settle_in(houses[1], VICTIM)


@pytest.fixture
def packed(houses: tuple[Installation, Installation], tmp_path: Path) -> Packed:
    """Somebody who has left the old one, and the bundle that the new one has granted."""
    old, new = houses
    user = moving.settle_in(old)
    moving.leave(old, user, file := tmp_path / "bundle.tar", moving.grant(old, new, user.id))
    return user, file


def forged(file: Path, signer: Path, forge: Forge) -> Path:
    """The bundle changed by ``forge`` and signed again with a key."""
    with tarfile.open(file) as archive:
        members = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    head = json.loads(members.pop("manifest.json"))
    del members["signature.json"], head["members"], head["kind"], head["format"]
    forge(members, head)
    made = file.with_name(f"forged-{uuid4().hex}.tar")
    with made.open("x+b") as out:
        writer = bundles.Writer(out)
        for name, data in members.items():
            writer.add(name, [data])
        writer.finish(head, lambda text: signing.sign(signer, text))
    return made


def rows_of(members: Members, table: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in members[f"rows/{table}.jsonl"].splitlines()]


def put(members: Members, table: str, rows: list[dict[str, Any]]) -> None:
    members[f"rows/{table}.jsonl"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def each(table: str, **values: object) -> Forge:
    """Every row of a table says something else."""

    def forge(members: Members, head: dict[str, Any]) -> None:
        put(members, table, [{**row, **values} for row in rows_of(members, table)])

    return forge


def of_the_victim(victim: User) -> dict[str, tuple[Forge, str]]:
    whose = victim.id.hex

    def owner(members: Members, head: dict[str, Any]) -> None:
        head["owners"].append(whose)
        for name in ("journals", "files"):
            head[name].append(head[name][0] if name == "journals" else None)

    def journal_of(members: Members, head: dict[str, Any]) -> None:
        more = {**rows_of(members, "journal_event")[-1], "principal": whose, "seq": 999}
        put(members, "journal_event", [*rows_of(members, "journal_event"), more])

    return {
        "a note": (each("note", principal=whose), "a note of"),
        "a message that they said": (each("inbox", actor=whose), "was done by"),
        "an approval by them": (each("approval", decided_by=whose), "was done by"),
        "an approval that they are asked": (each("approval", asked=whose), "whom it is not about"),
        "a schedule of theirs": (each("schedule", user=whose), "a schedule of"),
        "an identity of theirs": (each("identity", user=whose), "identity of"),
        "their user": (each("user_account", id=whose), "a user_account of"),
        "their principal": (each("principal", id=whose), "a principal of"),
        "into whom they merged": (each("principal", merged_into=whose), "a principal of"),
        "an event in their journal": (journal_of, "a journal_event of"),
        "them as well": (owner, "lives here already"),
    }


@pytest.mark.slow
def test_nothing_in_it_touches_anybody_else(
    houses: tuple[Installation, Installation], victim: User, packed: Packed
) -> None:
    old, new = houses
    user, file = packed
    before = moving.rows(new, victim.id)
    for forge, why in of_the_victim(victim).values():
        with pytest.raises(MoveRefused, match=why):
            moving.arrive(new, forged(file, old.home, forge))
        assert moving.rows(new, victim.id) == before
        assert not any(moving.rows(new, user.id).values())
        assert [one for one in moving.files_of(new.volumes, new.blobs_folder) if str(victim.id) not in one] == []
    assert moving.arrive(new, file).user == user.id, "the grant was not used up by what was refused"


def changed_word(members: Members, head: dict[str, Any]) -> None:
    found = rows_of(members, "journal_payload")
    found[1]["body"] = '{"text": "I, Ann, owe Eve a thousand"}'
    put(members, "journal_payload", found)


def left_out(members: Members, head: dict[str, Any]) -> None:
    put(members, "journal_event", rows_of(members, "journal_event")[:-1])


def other_blob(members: Members, head: dict[str, Any]) -> None:
    name = next(name for name in members if name.startswith("blobs/"))
    members[name] = b"something else"


def outside(members: Members, head: dict[str, Any]) -> None:
    members["rows/receipt.jsonl"] = b"{}\n"


UNFIT: list[tuple[Forge, str]] = [
    (changed_word, "does not verify"), (left_out, "does not verify"), (other_blob, "is something else"),
    (outside, "does not know"), (each("note", colour="red"), "does not know"),
    (each("note", confidence="much"), "cannot be"), (each("note", body=None), "without body"),
    (each("task", number=1 << 70), "cannot be"), (each("note", at=True), "cannot be"),
    (each("note", body="nul\0"), "cannot be"), (each("cold_turns", words="AAAA"), "cannot be read"),
    (each("principal", kind="house"), "people move"), (each("principal", head_seq=3), "ends elsewhere"),
    (each("note", id="00" * 16), "does not fit"), (lambda members, head: head.update(user="x"), "does not say"),
    (lambda members, head: head.update(owners=[]), "contradicts itself"),
    (lambda members, head: members.pop("rows/user_account.jsonl"), "does not fit|brings nothing"),
    (lambda members, head: members.pop("volumes/0.tar.zst"), "lacks files"),
    (lambda members, head: head.update(schema="9999"), "newer release"),
]  # fmt: skip


@pytest.mark.slow
def test_what_does_not_fit_together_is_refused(houses: tuple[Installation, Installation], packed: Packed) -> None:
    old, new = houses
    user, file = packed
    for forge, why in UNFIT:
        with pytest.raises(MoveRefused, match=why):
            moving.arrive(new, forged(file, old.home, forge))
        assert not any(moving.rows(new, user.id).values())
        assert moving.files_of(new.volumes, new.blobs_folder) == []


def test_another_key_than_the_one_that_was_granted_is_refused(
    houses: tuple[Installation, Installation], packed: Packed, tmp_path: Path
) -> None:
    _, new = houses
    _, file = packed
    (thief := tmp_path / "thief").mkdir()
    key = signing.public_key(thief)
    with pytest.raises(MoveRefused, match="another key"):
        moving.arrive(new, forged(file, thief, changed_word))

    def renamed(members: Members, head: dict[str, Any]) -> None:
        head["source"]["key"] = key

    with pytest.raises(MoveRefused, match="somebody else's"):
        moving.arrive(new, forged(file, thief, renamed))

    def own_grant(members: Members, head: dict[str, Any]) -> None:
        renamed(members, head)
        real = tokens.read_grant(head["grant"])
        made = tokens.Grant(real.id, real.user, key, new.key, real.place, real.until)
        head["grant"] = tokens.make_grant(thief, made)

    with pytest.raises(MoveRefused, match="not what `users grant` printed"):
        moving.arrive(new, forged(file, thief, own_grant))


def test_whoever_arrives_administers_nothing(houses: tuple[Installation, Installation], tmp_path: Path) -> None:
    old, new = houses
    user = moving.settle_in(old)
    old.database.write_now(lambda c: users.set_role(c, user.id, "admin", None))
    moving.leave(old, user, file := tmp_path / "bundle.tar", moving.grant(old, new, user.id))
    moving.arrive(new, file)
    found = new.database.read_now(lambda c: users.get(c, user.id))
    assert found is not None
    assert found.role == "member"


def test_files_that_would_leave_the_workspace_are_refused(
    houses: tuple[Installation, Installation], packed: Packed, tmp_path: Path
) -> None:
    old, new = houses
    user, file = packed

    def escape(members: Members, head: dict[str, Any]) -> None:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            manifest = json.dumps({"format": archives.FORMAT}).encode()
            first = tarfile.TarInfo(archives.MANIFEST)
            first.size = len(manifest)
            archive.addfile(first, io.BytesIO(manifest))
            evil = tarfile.TarInfo("workspace/../../../escaped.txt")
            evil.size = 4
            archive.addfile(evil, io.BytesIO(b"evil"))
        members["volumes/0.tar.zst"] = zstandard.ZstdCompressor().compress(made.getvalue())

    with pytest.raises(MoveRefused, match="leaves the workspace"):
        moving.arrive(new, forged(file, old.home, escape))
    assert list(tmp_path.rglob("escaped*")) == []
    assert not Volumes(new.volumes).exists(user.id)
    assert new.database.read_now(lambda c: journal.verify(c, user.id) if users.get(c, user.id) else None) is None


NESTED = '{"a":' * 100_000
UNREADABLE: list[tuple[Forge, str]] = [
    *[(each("outbox", content=one), "an? outbox that") for one in ("nope", "[]", NESTED, '{"edits": "x"}')],
    *[(each("inbox", envelope=one), "an? inbox that") for one in ("nope", "[]", '{"reply": [1]}', '{"sender": 7}')],
    (each("schedule", reply="nope"), "a schedule that"), (each("schedule", kind="every", spec="0"), "a schedule that"),
    (each("schedule", kind="every", spec="-60"), "a schedule that"), (each("schedule", zone="../x"), "a schedule that"),
    (each("schedule", kind="at", spec="soon"), "a schedule that"), (each("timer", environment="x"), "a timer that"),
    (each("timer", spec="every day"), "a timer that"), (each("continuation", place="{}"), "a continuation that"),
    (each("approval", request="x"), "a[n]? approval that"),
    (each("approval", choices='[{"x": 1}]'), "a[n]? approval that"), (each("merge", moved="x"), "a merge whose moved"),
    (each("merge", folder="../../etc"), "a merge whose folder"), (each("note", confidence=1e999), "cannot be"),
    (each("note", confidence=10**400), "cannot be"), (each("principal", epoch=(1 << 63) - 1), "higher than anything"),
    (lambda members, head: head.update(files=[{"generation": float("inf")}]), "does not say"),
    (lambda members, head: head["source"].update(place="a\x1b[2J"), "does not say"),
    (lambda members, head: head["source"].update(place="\ud800"), "does not say"),
]  # fmt: skip


def merged(members: Members, head: dict[str, Any]) -> None:
    """They are merged with themselves, over and over."""
    row = rows_of(members, "outbox")[0]
    made = {
        "id": uuid4().hex, "kept": row["principal"], "absorbed": row["principal"], "folder": "me", "state": "done",
        "asked_by": None, "by_link": False, "asked_at": 1, "due_at": 1, "done_at": 1, "undone_at": None, "moved": "{}",
    }  # fmt: skip
    put(members, "merge", [made])


@pytest.mark.slow
def test_what_would_stop_a_queue_for_everybody_is_refused(
    houses: tuple[Installation, Installation], packed: Packed
) -> None:
    """Whoever delivers, and whoever looks for what is due, reads the rows of all people at once."""
    old, new = houses
    user, file = packed
    for forge, why in [*UNREADABLE, (merged, "into themselves")]:
        if "merge" in why and forge is not merged:
            forge = after(merged, forge)
        with pytest.raises(MoveRefused, match=why):
            moving.arrive(new, forged(file, old.home, forge))
        assert not any(moving.rows(new, user.id).values())
    assert moving.arrive(new, file).user == user.id


def after(first: Forge, then: Forge) -> Forge:
    def both(members: Members, head: dict[str, Any]) -> None:
        first(members, head)
        then(members, head)

    return both


def test_nothing_is_said_where_somebody_else_is_heard(
    houses: tuple[Installation, Installation], victim: User, packed: Packed
) -> None:
    """Neither what waits to be sent, nor the answer to what waits, nor what is due later."""
    old, new = houses
    user, file = packed
    there = {"channel": VICTIM.channel, "account": VICTIM.account, "conversation": VICTIM.external_id}
    mail = {"channel": "email", "account": "", "conversation": "ann@example.org"}
    hidden = json.dumps({"to": "victim@example.org"})

    def forge(members: Members, head: dict[str, Any]) -> None:
        for name in ("outbox", "inbox", "schedule", "approval"):
            first, second, *rest = rows_of(members, name)
            given = {"outbox": {"content": f'{{"text": "", "reply": {hidden}}}'}, "inbox": {
                "envelope": f'{{"reply": {hidden}}}'}}.get(name, {"reply": hidden})  # fmt: skip
            put(members, name, [{**first, **there}, {**second, **mail, **given}, *rest])

    moving.arrive(new, forged(file, old.home, forge))
    found = moving.rows(new, user.id)
    for name, closed in (("outbox", "withdrawn"), ("inbox", "withdrawn"), ("approval", "expired")):
        strange = [row["status"] for row in found[name] if row["channel"] in (VICTIM.channel, "email")]
        assert strange == [closed] * 2, name
        others = {row["status"] for row in found[name] if row["channel"] not in (VICTIM.channel, "email")}
        assert others <= {moving.STATUS[name]}, name
    assert [row["to_last"] for row in found["schedule"]] == [True, True, False]
    assert [row["actor"] for row in found["inbox"] if row["channel"] in (VICTIM.channel, "email")] == [None, None]


def test_undoing_a_merge_that_was_made_up_gives_nobody_a_role_or_what_is_anothers(
    houses: tuple[Installation, Installation], victim: User, packed: Packed
) -> None:
    old, new = houses
    user, file = packed
    (task,) = [row["id"] for row in moving.rows(new, victim.id)["task"]][:1]

    def steal(members: Members, head: dict[str, Any]) -> None:
        merged(members, head)
        (row,) = rows_of(members, "merge")
        put(members, "merge", [{**row, "state": "undone", "moved": json.dumps({"role": "admin", "tasks": [task]})}])

    with pytest.raises(MoveRefused, match="somebody else's"):
        moving.arrive(new, forged(file, old.home, steal))

    def rise(members: Members, head: dict[str, Any]) -> None:
        merged(members, head)
        (row,) = rows_of(members, "merge")
        put(members, "merge", [{**row, "state": "undone", "moved": json.dumps({"role": "admin"})}])

    moving.arrive(new, forged(file, old.home, rise))
    assert [row["moved"] for row in moving.rows(new, user.id)["merge"]] == ["{}"]


def test_one_person_comes_by_a_grant(houses: tuple[Installation, Installation], tmp_path: Path) -> None:
    old, new = houses
    user, other = moving.settle_in(old), moving.settle_in(old, Claim("telegram", "7", "77", "Bob", "platform"))
    moving.leave(old, user, file := tmp_path / "bundle.tar", moving.grant(old, new, user.id))
    moving.leave(old, other, second := tmp_path / "other.tar", moving.grant(old, new, other.id))

    def both(members: Members, head: dict[str, Any]) -> None:
        with tarfile.open(second) as archive:
            for name in archive.getnames():
                if name.startswith("rows/"):
                    members[name] += archive.extractfile(name).read()  # type: ignore[union-attr]
            theirs = json.loads(archive.extractfile("manifest.json").read())  # type: ignore[union-attr]
        for name in ("owners", "journals"):
            head[name] += theirs[name]
        head["files"].append(None)

    with pytest.raises(MoveRefused, match="who is not the person"):
        moving.arrive(new, forged(file, old.home, both))


@pytest.mark.parametrize("name", ["a/b", "x\x1b", "a" * 65, "é", "A B", "\udcff", "owner"])
def test_a_fork_is_named_as_people_here_are(
    houses: tuple[Installation, Installation], tmp_path: Path, name: str
) -> None:
    old, new = houses
    departing.copy(old, moving.settle_in(old), file := tmp_path / "copy.tar")
    with pytest.raises(MoveRefused, match="a fork is not named"):
        moving.arrive(new, file, fork=name)
