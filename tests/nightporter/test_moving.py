"""Moving house without the services: everything comes along, once, to where it was granted, and lives in one place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, select, update

from identity import administration, forgetting, luggage, merging, moves, users
from identity.moves import MoveRefused
from nightporter.moving import activating, departing, tokens
from nightporter.moving.installation import Installation
from router import actions
from router.actions import Answered
from tests.buckets import KEYS, ObjectStore
from tests.nightporter import moving
from tests.nightporter.moving import ANN, WORD, Make
from workspace_store import approvals, effects, inbox, inbox_counts, journal, memory_search, outbox, principal, unserved
from workspace_store.approvals import Place
from workspace_store.bucket import StoreUnavailable
from workspace_store.database import now_us
from workspace_store.outbox import Address
from workspace_store.principal import Away
from workspace_store.settings import StorageSettings
from workspace_store.storage import Storage


@pytest.fixture
def make(sqlite_template: bytes, tmp_path: Path) -> Iterator[Make]:
    made = []

    def one(name: str) -> Installation:
        path = tmp_path / f"{name}.db"
        path.write_bytes(sqlite_template)
        made.append(moving.installation(tmp_path / name, f"sqlite:///{path}"))
        return made[-1]

    yield one
    for house in made:
        house.database.close()


@pytest.fixture
def old(make: Make) -> Installation:
    return make("old")


@pytest.fixture
def new(make: Make) -> Installation:
    return make("new")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bundle.tar"


def test_every_table_goes_along_or_it_is_known_why_not() -> None:
    """Whoever adds a table decides; whose a row is, is said by its own column."""
    assert set(luggage.STAYS) & {found.name for found in luggage.goes()} == set()
    assert [found.name for found in luggage.goes() if luggage.OWNER.get(found.name, "principal") not in found.c] == []


def move(old: Installation, new: Installation, file: Path) -> users.User:
    user = moving.settle_in(old)
    moving.leave(old, user, file, moving.grant(old, new, user.id))
    moving.arrive(new, file)
    return user


def check_moved(old: Installation, new: Installation, user: UUID, before: dict[str, list[Any]]) -> None:
    after = moving.rows(new, user)
    for name, there in before.items():
        # What comes after is of the journey: an event in the journal, a checkpoint of it, and who did what.
        more = 1 if name in ("journal_event", "journal_payload", "identity_event", "checkpoint") else 0
        assert after[name][: len(there)] == there, name
        assert len(after[name]) == len(there) + more, name
    assert moving.gold(new, user) == WORD
    assert new.blobs.get(user, next(new.blobs.hashes(user))) == WORD.encode()
    assert new.database.read_now(lambda c: journal.verify(c, user))[1] == []
    assert [moving.is_alive(house, user) for house in (old, new)] == [False, True]


def test_everything_of_a_person_is_there_under_the_same_uuid(old: Installation, new: Installation, file: Path) -> None:
    user = moving.settle_in(old)
    before = moving.rows(old, user.id)
    assert all(before[name] for name in before if name != "merge"), "a row of everything"
    moving.leave(old, user, file, moving.grant(old, new, user.id))
    assert file.stat().st_mode & 0o077 == 0
    arrived = moving.arrive(new, file)
    assert arrived.user == user.id
    check_moved(old, new, user.id, before)
    found = new.database.read_now(lambda c: memory_search.search(c, user.id, "codeword"))
    assert any(WORD in hit.body for hit in found)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("sqlite", "postgresql"), ("postgresql", "sqlite"), ("postgresql", "postgresql")])
def test_between_storage_drivers(kinds: tuple[str, str], request: Any, make: Make, tmp_path: Path, file: Path) -> None:
    houses = []
    for name, kind in zip(("old", "new"), kinds, strict=True):
        if kind == "sqlite":
            houses.append(make(name))
            continue
        from workspace_store import schema

        url = request.getfixturevalue("postgresql").create()
        schema.upgrade(url)
        houses.append(moving.installation(tmp_path / name, url))
    user = moving.settle_in(houses[0])
    before = moving.rows(houses[0], user.id)
    moving.leave(houses[0], user, file, moving.grant(*houses, user.id))
    moving.arrive(houses[1], file)
    check_moved(*houses, user.id, before)


@pytest.fixture
def in_bucket(object_store: ObjectStore, tmp_path: Path, sqlite_template: bytes) -> Iterator[Make]:
    """An installation whose volumes are in a bucket of its own."""
    made = []

    def one(name: str) -> Installation:
        path = tmp_path / f"{name}.db"
        path.write_bytes(sqlite_template)
        settings = StorageSettings(endpoint=object_store.endpoint, allow_http=True, **KEYS)
        storage = Storage(tmp_path / name, f"s3://{object_store.create()}/house", settings)
        made.append(moving.installation(tmp_path / name, f"sqlite:///{path}", storage))
        return made[-1]

    yield one
    for house in made:
        house.database.close()


@pytest.mark.parametrize("way", ["there", "back", "between"])
def test_between_folders_and_object_stores(way: str, make: Make, in_bucket: Make, file: Path) -> None:
    old = (make if way == "there" else in_bucket)("old")
    new = (make if way == "back" else in_bucket)("new")
    user = moving.settle_in(old)
    before = moving.rows(old, user.id)
    moving.leave(old, user, file, moving.grant(old, new, user.id))
    moving.arrive(new, file)
    check_moved(old, new, user.id, before)
    assert [name for name in moving.files_of(new.volumes, new.blobs_folder) if "/." in name] == []


def test_an_arrival_that_fails_leaves_the_object_store_as_it_was(
    old: Installation, in_bucket: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = in_bucket("new")
    user = moving.settle_in(old)
    moving.leave(old, user, file, moving.grant(old, new, user.id))

    def fail(self: object, connection: Connection) -> None:
        raise MoveRefused("not now")

    with monkeypatch.context() as broken:
        broken.setattr(activating.Activation, "run", fail)
        with pytest.raises(MoveRefused, match="not now"):
            moving.arrive(new, file)
    assert new.storage.bucket.get(f"volumes/{user.id}/head.json") is None
    assert list(new.blobs.hashes(user.id)) == []
    moving.arrive(new, file)
    assert moving.gold(new, user.id) == WORD


def test_whoever_has_come_is_not_refused_because_the_object_store_falls_silent(
    old: Installation, in_bucket: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = in_bucket("new")
    user = moving.settle_in(old)
    moving.leave(old, user, file, moving.grant(old, new, user.id))

    def silent(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr("nightporter.moving.in_bucket.settle", silent)
        moving.arrive(new, file)
    assert moving.is_alive(new, user.id)
    assert moving.gold(new, user.id) == WORD


def test_the_old_place_takes_nothing_and_lets_nothing_out(old: Installation, new: Installation, file: Path) -> None:
    user = move(old, new, file)
    found = old.database.read_now(lambda c: users.by_identity(c, ANN))
    assert found is not None
    assert (found.moved_to, found.blocked) == ("new.example", True)
    with pytest.raises(Away):
        old.database.write_now(lambda c: journal.append(c, user.id, [], under=None))
    with pytest.raises(Away):
        old.database.write_now(lambda c: inbox_counts.received(c, user.id))
    seen = old.database.read_now(lambda c: principal.look(c, user.id))
    assert seen is not None
    assert old.database.write_now(lambda c: principal.take(c, user.id, "runner-x", seen)) is None
    assert old.database.read_now(lambda c: unserved.with_mail(c, now_us())) == []
    channels = [row["channel"] for row in moving.rows(old, user.id)["outbox"]]
    assert old.database.write_now(lambda c: outbox.claim(c, channels, "me", [])) == []
    assert len(new.database.write_now(lambda c: outbox.claim(c, channels, "me", []))) == 3


def test_a_grant_lets_one_in_once(old: Installation, new: Installation, file: Path) -> None:
    user = move(old, new, file)
    with pytest.raises(MoveRefused, match="used already"):
        moving.arrive(new, file)
    assert new.database.read_now(lambda c: journal.verify(c, user.id))[1] == []


def test_what_was_not_granted_is_refused_and_leaves_nothing_behind(
    old: Installation, new: Installation, make: Make, file: Path
) -> None:
    user = moving.settle_in(old)
    departing.copy(old, user, file)
    assert moving.is_alive(old, user.id), "whoever is copied goes on living"
    third = make("third")
    moving.leave(old, user, granted := file.with_name("granted.tar"), moving.grant(old, new, user.id))
    for bundle, house, why in ((file, new, "nobody granted"), (granted, third, "granted to come to new.example")):
        with pytest.raises(MoveRefused, match=why):
            moving.arrive(house, bundle)
        assert moving.files_of(house.volumes, house.blobs_folder) == []
        assert all(not found for found in moving.rows(house, user.id).values())


def test_grants_of_others_run_out_and_taken_back_let_nobody_leave_or_in(
    old: Installation, new: Installation, file: Path
) -> None:
    user, other = moving.settle_in(old), moving.settle_in(old, users.Claim("telegram", "7", "6", "Bob", "platform"))
    for code, why in (
        (moving.grant(old, new, other.id), "is for"),
        (moving.grant(old, new, user.id, source="ab" * 32), "another installation"),
        (moving.grant(old, new, user.id, seconds=-1), "run out"),
        (moving.grant(old, old, user.id), "live already"),
        (moving.grant(old, new, user.id)[:-9], "not all of it"),
        ("nonsense", "not what `users grant` printed"),
    ):
        with pytest.raises(MoveRefused, match=why):
            moving.leave(old, user, file, code)
        assert moving.is_alive(old, user.id)
        assert not file.exists()
    code = moving.grant(old, new, user.id)
    moving.leave(old, user, file, code)
    new.database.write_now(lambda c: moves.revoke(c, tokens.read_grant(code).id))
    with pytest.raises(MoveRefused, match="taken back"):
        moving.arrive(new, file)


def test_whoever_never_arrived_comes_back_by_the_word_of_the_new_place(
    old: Installation, new: Installation, file: Path
) -> None:
    user = moving.settle_in(old)
    before = moving.rows(old, user.id)
    code = moving.grant(old, new, user.id)
    moving.leave(old, user, file, code)
    found = old.database.read_now(lambda c: users.get(c, user.id))
    assert found is not None
    forged = tokens.make_unused(old.home, tokens.read_grant(code).id)
    with pytest.raises(MoveRefused, match="says nothing"):
        departing.come_back(old, found, forged)
    new.database.write_now(lambda c: moves.revoke(c, tokens.read_grant(code).id))
    departing.come_back(old, found, tokens.make_unused(new.home, tokens.read_grant(code).id))
    assert moving.is_alive(old, user.id)
    after = moving.rows(old, user.id)
    assert {name: found for name, found in after.items() if name != "identity_event"} == {
        name: found for name, found in before.items() if name != "identity_event"
    }


def test_a_grant_that_was_used_cannot_be_taken_back(old: Installation, new: Installation, file: Path) -> None:
    user = moving.settle_in(old)
    code = moving.grant(old, new, user.id)
    moving.leave(old, user, file, code)
    moving.arrive(new, file)
    with pytest.raises(MoveRefused, match="was used"):
        new.database.write_now(lambda c: moves.revoke(c, tokens.read_grant(code).id))


def test_there_and_back_again(old: Installation, new: Installation, file: Path) -> None:
    user = move(old, new, file)
    new.database.write_now(lambda c: journal.append(c, user.id, [journal.Event("turn.failed", {})], under=None))
    before = moving.rows(new, user.id)
    moving.leave(new, user, back := file.with_name("back.tar"), moving.grant(new, old, user.id))
    moving.arrive(old, back)
    check_moved(new, old, user.id, before)


def test_a_bundle_of_another_past_is_no_coming_back(
    old: Installation, new: Installation, make: Make, file: Path
) -> None:
    """Who came to live elsewhere with the same UUID, and another journal, does not replace who was here."""
    user = moving.settle_in(old)
    departing.copy(old, user, file)
    moving.leave(old, user, file.with_name("b.tar"), moving.grant(old, new, user.id))
    moving.arrive(new, file.with_name("b.tar"))
    # At a third place, the same person with a journal that was begun again.
    third = make("third")
    third.database.write_now(lambda c: c.execute(users.user_account.insert().values(
        id=user.id, display_name="Ann", role="member", blocked=False, created_at=1)))  # fmt: skip
    third.database.write_now(lambda c: principal.create(c, user.id, "user"))
    for _ in range(30):
        third.database.write_now(lambda c: journal.append(c, user.id, [journal.Event("turn.failed", {})], under=None))
    moving.leave(third, user, file.with_name("c.tar"), moving.grant(third, old, user.id))
    with pytest.raises(MoveRefused, match="does not verify"):
        moving.arrive(old, file.with_name("c.tar"))
    assert old.database.read_now(lambda c: journal.verify(c, user.id))[1] == []
    assert moving.gold(old, user.id) == WORD


def test_a_fork_is_somebody_else_who_remembers_and_does_nothing_twice(
    old: Installation, new: Installation, file: Path
) -> None:
    user = moving.settle_in(old)
    departing.copy(old, user, file)
    for house in (new, old):
        arrived = moving.arrive(house, file, fork="twin")
        fork = arrived.user
        assert fork != user.id
        assert arrived.identities == ["local:twin"]
        assert moving.gold(house, fork) == WORD
        assert house.database.read_now(lambda c, f=fork: journal.verify(c, f))[1] == []
        found = moving.rows(house, fork)
        assert {row["status"] for row in found["schedule"]} == {"paused"}
        assert {row["status"] for name in ("inbox", "outbox") for row in found[name]} == {"withdrawn"}
        assert {row["status"] for row in found["approval"]} == {"expired"}
        assert found["timer"] == []
        assert house.database.read_now(lambda c, f=fork: inbox_counts.waiting(c, f)) == 0
        recalled = house.database.read_now(lambda c, f=fork: memory_search.search(c, f, "codeword"))
        assert any(WORD in hit.body for hit in recalled)
    assert moving.is_alive(old, user.id)
    with pytest.raises(MoveRefused, match="is somebody here already"):
        moving.arrive(new, file, fork="twin")


def test_effects_that_nobody_saw_end_are_told_as_uncertain(old: Installation, new: Installation, file: Path) -> None:
    user = moving.settle_in(old)
    row = effects.effect.c
    one = select(row.id).where(row.principal == user.id).limit(1).scalar_subquery()
    old.database.write_now(lambda c: c.execute(update(effects.effect).where(row.id == one).values(status="intended")))
    moving.leave(old, user, file, moving.grant(old, new, user.id))
    moving.arrive(new, file)
    untold = new.database.read_now(lambda c: effects.untold(c, user.id))
    assert [each.status for each in untold if each.reason == "their agent moved before its end was seen"] == [
        "uncertain"
    ]
    assert new.database.read_now(lambda c: effects.unfinished_before(c, user.id, 1 << 40)) == []


def test_identities_that_are_somebodys_here_are_asked_about(old: Installation, new: Installation, file: Path) -> None:
    user = moving.settle_in(old)
    there = new.database.write_now(lambda c: users.create(c, ANN, "member"))
    moving.leave(old, user, file, moving.grant(old, new, user.id))
    with pytest.raises(MoveRefused, match=r"telegram:5 is .*'s here.*--take telegram:5.*--leave"):
        moving.arrive(new, file)
    moving.arrive(new, file, take=["telegram:5"])
    found = new.database.read_now(lambda c: users.by_identity(c, ANN))
    assert found is not None
    assert found.id == user.id != there.id


def test_a_person_who_is_spoken_with_is_not_packed(old: Installation, new: Installation, file: Path) -> None:
    user = moving.settle_in(old)
    life = moving.departing.liveness.Life(old.lives, "runner", "here")
    seen = old.database.read_now(lambda c: principal.look(c, user.id))
    assert seen is not None
    old.database.write_now(lambda c: principal.take(c, user.id, life.id, seen))
    code = moving.grant(old, new, user.id)
    with pytest.raises(MoveRefused, match="a turn of theirs is running"):
        moving.leave(old, user, file, code)
    assert moving.is_alive(old, user.id)
    life.end()
    moving.leave(old, user, file, code)


def test_a_disk_that_is_full_after_they_left_is_gone_on_from(
    old: Installation, new: Installation, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one moment in which nobody lives anywhere: what was typed, typed again, ends it."""
    user = moving.settle_in(old)
    code = moving.grant(old, new, user.id)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(departing.Packing, "seal", full)
        with pytest.raises(MoveRefused, match=r"they have left.*run the same again"):
            moving.leave(old, user, file, code)
    assert not moving.is_alive(old, user.id)
    assert list(file.parent.glob("*bundle*")) == [], "nothing unsigned is left lying about"
    moving.leave(old, user, file, code)
    moving.arrive(new, file)
    assert moving.is_alive(new, user.id)


def test_the_same_export_again_is_the_same_departure(old: Installation, new: Installation, file: Path) -> None:
    user = moving.settle_in(old)
    code = moving.grant(old, new, user.id)
    first = moving.leave(old, user, file, code)
    again = moving.leave(old, user, file, code)
    other = moving.leave(old, user, file.with_name("again.tar"), code)
    assert first.bundle == again.bundle == other.bundle
    with pytest.raises(MoveRefused, match=r"have left for new\.example already"):
        moving.leave(old, user, file.with_name("x.tar"), moving.grant(old, new, user.id))
    moving.arrive(new, file.with_name("again.tar"))
    with pytest.raises(MoveRefused, match="used already"):
        moving.arrive(new, file)


def test_a_question_is_answered_where_they_live_and_used_once(old: Installation, new: Installation, file: Path) -> None:
    user = moving.settle_in(old)
    at = Place(Address("telegram", "7", "5", ""), {}, user.id)

    def ask(connection: Connection) -> approvals.Approval:
        return approvals.request(
            connection, key="k", kind="k", principal=user.id, at=at, request={"a": 1}, text="do it"
        )

    asked = old.database.write_now(ask)
    moving.leave(old, user, file, moving.grant(old, new, user.id))
    moving.arrive(new, file)

    def approve(connection: Connection) -> Answered:
        return actions.answer(connection, asked.code, None, "approve", via="cli", hooks={})

    refused = old.database.write_now(approve)
    assert refused.decision.outcome == "already"
    assert "moved to another installation" in refused.text
    assert new.database.write_now(approve).decision.outcome == "decided"
    used = [house.database.write_now(lambda c: approvals.consume(c, asked.id, {"a": 1})) for house in (old, new, new)]
    assert used == [False, True, False]


def test_whoever_was_merged_into_them_comes_along(old: Installation, new: Installation, file: Path) -> None:
    user, other = moving.settle_in(old), moving.settle_in(old, users.Claim("telegram", "7", "6", "Bob", "platform"))

    def merge(connection: Connection) -> None:
        found = [users.get(connection, one.id) for one in (user, other)]
        assert found[0] is not None
        assert found[1] is not None
        connection.execute(update(inbox.inbox).values(status="done"))
        assert administration.merge(connection, found[0], found[1], None).state == "done"

    old.database.write_now(merge)
    before = moving.rows(old, other.id)
    moving.leave(old, user, file, moving.grant(old, new, user.id))
    moving.arrive(new, file)
    assert new.database.read_now(lambda c: principal.scope(c, user.id)) == [user.id, other.id]
    assert [absorbed for absorbed, _ in new.database.read_now(lambda c: merging.mounts(c, user.id))] == [other.id]
    assert moving.gold(new, other.id) == WORD
    assert moving.rows(new, other.id)["note"] == before["note"]
    for one in (user, other):
        assert new.database.read_now(lambda c, o=one: journal.verify(c, o.id))[1] == []
        assert not moving.is_alive(old, one.id)
    fork = moving.arrive(new, file, fork="twin").user
    assert len(new.database.read_now(lambda c: principal.scope(c, fork))) == 2


def test_the_old_place_can_forget_who_left_and_take_them_in_again(
    old: Installation, new: Installation, file: Path
) -> None:
    user = move(old, new, file)
    old.database.write_now(lambda c: users.set_role(c, user.id, "admin", None))
    gone = old.database.read_now(lambda c: users.get(c, user.id))
    assert gone is not None
    old.database.write_now(lambda c: administration.block(c, gone, None))
    old.database.write_now(lambda c: forgetting.erase(c, [user.id]))
    assert old.database.read_now(lambda c: users.by_identity(c, ANN)) is None
    before = moving.rows(new, user.id)
    moving.leave(new, user, back := file.with_name("back.tar"), moving.grant(new, old, user.id))
    moving.arrive(old, back)
    check_moved(new, old, user.id, before)
