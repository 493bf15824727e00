"""Lease and tenancy: one owner at a time, none that outstays, and no wake-up lost between looking and letting go."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, select

from tests import processes
from tests.workspace_store.people import lease, person, receive
from workspace_store import inbox, inbox_counts, principal, resting, unserved
from workspace_store import tenancy as tenancies
from workspace_store.database import Database, database_now_us, now_us
from workspace_store.principal import StaleLease
from workspace_store.tenancy import StaleTenancy, Tenancy


def owner_of(database: Database, identifier: UUID) -> str | None:
    seen = database.read_now(lambda connection: principal.look(connection, identifier))
    assert seen is not None
    return seen.owner


def test_nobody_owns_a_new_person_and_an_unknown_one_is_not_there(database: Database) -> None:
    assert owner_of(database, person(database)) is None
    assert database.read_now(lambda connection: principal.look(connection, uuid4())) is None


def test_of_two_that_saw_the_same_one_takes_the_lease(database: Database) -> None:
    owner = person(database)
    seen = database.read_now(lambda connection: principal.look(connection, owner))
    assert seen is not None
    first = database.write_now(lambda connection: principal.take(connection, owner, "a", seen))
    second = database.write_now(lambda connection: principal.take(connection, owner, "b", seen))
    assert first is not None
    assert (first.epoch, second, owner_of(database, owner)) == (1, None, "a")


def take_once(url: str, owner: UUID, name: str, taken: processes.Queue) -> None:  # type: ignore[valid-type]
    database = Database(url)

    def transaction(connection: Connection) -> bool:
        seen = principal.look(connection, owner)
        assert seen is not None
        return seen.owner is None and principal.take(connection, owner, name, seen) is not None

    taken.put(database.write_now(transaction))  # type: ignore[attr-defined]
    database.close()


def test_of_several_processes_one_takes_the_lease(database: Database) -> None:
    owner, taken = person(database), processes.Queue()
    taking = [processes.start(take_once, database.url, owner, f"runner-{n}", taken) for n in range(4)]
    assert sorted(taken.get(timeout=60) for _ in taking) == [False, False, False, True]
    assert processes.codes(*taking) == [0, 0, 0, 0]


def test_a_lease_is_released_only_when_nothing_is_left(database: Database) -> None:
    owner = person(database)
    held = lease(database, owner)
    message = database.write_now(lambda connection: receive(connection, owner))
    assert database.write_now(lambda connection: principal.release(connection, held)) is False
    assert owner_of(database, owner) == held.owner

    def finish(connection: Connection) -> bool:
        principal.fence(connection, held)
        inbox.finish(connection, [message], "done")
        inbox_counts.drained(connection, owner)
        return principal.release(connection, held)

    assert database.write_now(finish) is True
    assert owner_of(database, owner) is None
    with pytest.raises(StaleLease):
        database.write_now(lambda connection: principal.fence(connection, held))


def test_a_lease_that_has_gone_releases_and_abandons_nothing(database: Database) -> None:
    owner = person(database)
    old, new = lease(database, owner, "a"), lease(database, owner, "b")
    assert database.write_now(lambda connection: principal.release(connection, old)) is False
    database.write_now(lambda connection: principal.abandon(connection, old))
    assert owner_of(database, owner) == "b"
    database.write_now(lambda connection: principal.fence(connection, new))


def test_an_abandoned_lease_leaves_its_mail_to_be_found_at_once(database: Database) -> None:
    owner = person(database)
    held = lease(database, owner)
    database.write_now(lambda connection: receive(connection, owner))
    database.write_now(lambda connection: unserved.rung(connection, [owner]))
    assert database.read_now(lambda connection: unserved.with_mail(connection, 0)) == []
    database.write_now(lambda connection: principal.abandon(connection, held))
    assert database.read_now(lambda connection: unserved.with_mail(connection, 0)) == [owner]


def test_mail_that_arrives_while_the_lease_is_let_go_is_never_lost(postgresql_url: str) -> None:
    """The runner's release waits for an intake that is not committed yet, and then sees its message."""
    runner, gateway = Database(postgresql_url), Database(postgresql_url)
    owner = person(runner)
    held = lease(runner, owner)
    with ThreadPoolExecutor(1) as pool:

        def intake(connection: Connection) -> None:
            receive(connection, owner)
            releasing.append(pool.submit(runner.write_now, lambda c: principal.release(c, held)))
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while runner.read_now(lambda c: c.exec_driver_sql(waits).scalar()) == 0:
                assert not releasing[0].done()

        releasing = []  # type: ignore[var-annotated]
        gateway.write_now(intake)
        assert releasing[0].result(30) is False
    assert owner_of(runner, owner) == held.owner

    # The other way round: released before the message is counted; then its intake sees no owner and rings.
    def arrives(connection: Connection) -> str | None:
        return inbox_counts.received(connection, owner)[1]

    runner.write_now(lambda connection: inbox_counts.drained(connection, owner))
    assert runner.write_now(lambda connection: principal.release(connection, held)) is True
    assert gateway.write_now(arrives) is None
    runner.close()
    gateway.close()


SEVERAL: dict[str, Callable[[Connection, list[UUID]], object]] = {
    "all": principal.lock_all,
    "leases": lambda connection, owners: principal.renew_leases(connection, "runner-a"),
    "given back": lambda connection, owners: principal.abandon_all(connection, "runner-a", owners),
    "tenancies": lambda connection, owners: tenancies.renew(connection, "manager-a"),
    "rung": unserved.rung,
    "resting": lambda connection, owners: resting.rest(connection, owners, 1),
}


@pytest.mark.parametrize("several", SEVERAL)
def test_whoever_locks_several_waits_for_one_without_those_behind_it(postgresql_url: str, several: str) -> None:
    """Else two wait for each other, for the second that PostgreSQL takes to notice."""
    database, first_of_all = Database(postgresql_url), Database(postgresql_url)
    # In its own order the table has them the other way round.
    owners = [UUID(int=number) for number in (3, 2, 1)]
    for owner in owners:
        database.write_now(lambda connection, o=owner: principal.create(connection, o, "user"))
        lease(database, owner)
        seen = database.read_now(lambda connection, o=owner: tenancies.look(connection, o))
        database.write_now(lambda connection, o=owner, s=seen: tenancies.take(connection, o, "manager-a", s))
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with ThreadPoolExecutor(1) as pool:

        def hold(connection: Connection) -> None:
            principal.lock(connection, min(owners))
            waiting.append(pool.submit(database.write_now, lambda c: SEVERAL[several](c, owners)))
            while database.read_now(lambda c: c.exec_driver_sql(waits).scalar()) == 0:
                assert not waiting[0].done()
            others = select(principal.principal.c.id).where(principal.principal.c.id != min(owners))
            assert len(connection.execute(others.with_for_update(nowait=True)).all()) == 2

        waiting = []  # type: ignore[var-annotated]
        first_of_all.write_now(hold)
        waiting[0].result(30)
    database.close()
    first_of_all.close()


def test_an_ended_lease_is_seen_as_ended_and_a_renewed_one_is_not(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = person(database)
    monkeypatch.setattr(principal, "LEASE_SECONDS", -1)
    lease(database, owner, "a")
    assert database.read_now(unserved.owners) == [("a", True)]
    monkeypatch.undo()
    assert database.write_now(lambda connection: principal.renew_leases(connection, "a")) == 1
    assert database.read_now(unserved.owners) == [("a", False)]
    seen = database.read_now(lambda connection: principal.look(connection, owner))
    assert seen is not None
    assert seen.expired is False


def test_an_owner_of_many_is_named_once(database: Database) -> None:
    owners = {person(database) for _ in range(3)}
    for owner in owners:
        lease(database, owner, "a")
    assert database.read_now(unserved.owners) == [("a", False)]
    assert set(database.read_now(lambda connection: unserved.owned_by(connection, "a"))) == owners


def found(database: Database, seconds: float) -> list[UUID]:
    """By a sweeper, so long from now."""
    since = database.read_now(database_now_us) + int(seconds * 1e6) - inbox_counts.RING_AGAIN_US
    return database.read_now(lambda connection: unserved.with_mail(connection, since))


def test_mail_is_left_to_its_bell_and_then_found_once_until_it_is_time_again(database: Database) -> None:
    owner = person(database)
    assert found(database, 1000) == []
    rung_for(database, owner)
    assert (found(database, 0.1), found(database, 1.1)) == ([], [owner])
    database.write_now(lambda connection: unserved.rung(connection, [owner]))
    assert (found(database, 1.1), found(database, 2.1)) == ([], [owner])


def test_mail_that_never_ends_hides_nobody(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, began = person(database), now_us()
    for tenths in range(20):
        monkeypatch.setattr(inbox_counts, "database_now_us", lambda _, at=began + tenths * 100_000: at)
        rung_for(database, owner)
    since = began + 1_100_000 - inbox_counts.RING_AGAIN_US
    assert database.read_now(lambda connection: unserved.with_mail(connection, since)) == [owner]
    # As little as it hides a lease that was given back.
    held = lease(database, owner)
    database.write_now(lambda connection: principal.abandon(connection, held))
    rung_for(database, owner)
    assert found(database, 0) == [owner]


def test_what_nobody_rings_for_is_found_at_once(database: Database) -> None:
    owner = person(database)
    database.write_now(lambda connection: receive(connection, owner))
    assert found(database, 0) == [owner]


def rung_for(database: Database, owner: UUID) -> None:
    """A message whose bell is rung."""
    database.write_now(lambda connection: inbox_counts.received_at(connection, owner))


def test_stop_means_what_was_said_up_to_now(database: Database) -> None:
    owner = person(database)
    for _ in range(2):
        database.write_now(lambda connection: receive(connection, owner))
    database.write_now(lambda connection: inbox_counts.stop(connection, owner))
    database.write_now(lambda connection: receive(connection, owner))
    assert database.read_now(lambda connection: inbox_counts.stop_seq(connection, owner)) == 2
    assert database.read_now(lambda connection: inbox_counts.waiting(connection, owner)) == 3


# Tenancy


def take_tenancy(database: Database, owner: UUID, host: str) -> Tenancy:
    taken = database.write_now(
        lambda connection: tenancies.take(connection, owner, host, tenancies.look(connection, owner))
    )
    assert taken is not None
    return taken


def test_of_two_managers_that_saw_the_same_one_takes_the_volume(database: Database) -> None:
    owner = person(database)
    seen = database.read_now(lambda connection: tenancies.look(connection, owner))
    first = database.write_now(lambda connection: tenancies.take(connection, owner, "a", seen))
    assert first is not None
    assert database.write_now(lambda connection: tenancies.take(connection, owner, "b", seen)) is None
    assert database.read_now(lambda connection: tenancies.look(connection, owner)).host == "a"


def test_a_manager_whose_tenancy_has_gone_changes_nothing(database: Database) -> None:
    owner = person(database)
    old = take_tenancy(database, owner, "a")
    new = take_tenancy(database, owner, "b")
    for attempt in (
        lambda connection: tenancies.fence(connection, old),
        lambda connection: tenancies.bind_volume(connection, old, "volume-of-a"),
        lambda connection: tenancies.commit_generation(connection, owner, old, 1),
    ):
        with pytest.raises(StaleTenancy):
            database.write_now(attempt)
    assert database.write_now(lambda connection: tenancies.release(connection, old)) is False
    database.write_now(lambda connection: tenancies.bind_volume(connection, new, "volume-of-b"))
    database.write_now(lambda connection: tenancies.commit_generation(connection, owner, new, 1))
    found = database.read_now(lambda connection: tenancies.look(connection, owner))
    assert (found.host, found.volume_id, found.generation) == ("b", "volume-of-b", 1)


def test_generations_are_committed_one_after_another(database: Database) -> None:
    owner = person(database)
    held = take_tenancy(database, owner, "a")
    database.write_now(lambda connection: tenancies.commit_generation(connection, owner, held, 1))
    for number in (1, 3):
        with pytest.raises(StaleTenancy):
            database.write_now(lambda connection, n=number: tenancies.commit_generation(connection, owner, held, n))


def test_renewing_says_which_volumes_are_still_held(database: Database) -> None:
    kept, lost = person(database), person(database)
    take_tenancy(database, kept, "a")
    take_tenancy(database, lost, "a")
    take_tenancy(database, lost, "b")
    assert database.write_now(lambda connection: tenancies.renew(connection, "a")) == {kept}


def take_uid(url: str, owner: UUID) -> None:
    database = Database(url)
    database.write_now(lambda connection: tenancies.host_uid(connection, owner, 100_000, 50))
    database.close()


def test_no_two_people_share_a_host_uid_whoever_asks_at_once(database: Database) -> None:
    people = [person(database) for _ in range(8)]
    asking = [processes.start(take_uid, database.url, owner) for owner in people]
    assert processes.codes(*asking) == [0] * 8
    uids = [database.read_now(lambda c, o=owner: tenancies.look(c, o)).host_uid for owner in people]
    assert sorted(uid or 0 for uid in uids) == list(range(100_000, 100_008))


def test_a_host_uid_is_for_good_and_the_range_an_end(database: Database) -> None:
    first, second = person(database), person(database)

    def uid(owner: UUID) -> int:
        return database.write_now(lambda connection: tenancies.host_uid(connection, owner, 100_000, 1))

    assert (uid(first), uid(first)) == (100_000, 100_000)
    with pytest.raises(tenancies.SandboxUidsExhausted, match="uid_range"):
        uid(second)


def test_figures_count_what_waits_runs_and_is_awake(database: Database) -> None:
    owner = person(database)
    database.write_now(lambda connection: receive(connection, owner))
    lease(database, owner)
    take_tenancy(database, owner, "a")
    assert database.read_now(principal.figures) == {"waiting": 1, "owned": 1, "awake": 1}
