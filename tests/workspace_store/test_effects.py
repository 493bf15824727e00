"""The effect ledger and the grants, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from tests.workspace_store.people import person
from workspace_store import effects, egress_grants
from workspace_store.database import Database, now_us
from workspace_store.effects import Effect, Settled
from workspace_store.egress_grants import grant


def an_effect(owner: UUID, **changes: Any) -> Effect:
    made = Effect(uuid4(), owner, 1, None, "egress-here-a", "example.org", 443, "POST", "p", "r", "intended", now_us())
    return replace(made, **changes)


def ended(identifier: UUID, status: effects.Status = "settled") -> Settled:
    return Settled(identifier, status, 201, "", 10, 20, "whole", now_us())


def test_intended_then_settled(database: Database) -> None:
    owner = person(database)
    intended = an_effect(owner)
    database.write_now(lambda connection: effects.write(connection, [intended]))
    assert database.read_now(lambda connection: effects.recent(connection, owner, 5)) == [intended]
    assert database.write_now(lambda connection: effects.settle(connection, ended(intended.id)))
    (found,) = database.read_now(lambda connection: effects.recent(connection, owner, 5))
    assert (found.status, found.outcome, found.bytes_out, found.bytes_in) == ("settled", 201, 10, 20)
    assert found.request_digest == "whole"


def test_an_effect_settles_once_and_uncertain_stays(database: Database) -> None:
    owner = person(database)
    intended = an_effect(owner)
    database.write_now(lambda connection: effects.write(connection, [intended]))
    assert database.write_now(lambda connection: effects.settle(connection, ended(intended.id, "uncertain")))
    assert not database.write_now(lambda connection: effects.settle(connection, ended(intended.id)))
    (found,) = database.read_now(lambda connection: effects.untold(connection, owner))
    assert found.status == "uncertain"
    database.write_now(lambda connection: effects.tell(connection, [found.id]))
    assert database.read_now(lambda connection: effects.untold(connection, owner)) == []


def test_the_same_effect_twice_is_refused(database: Database) -> None:
    owner = person(database)
    intended = an_effect(owner)
    database.write_now(lambda connection: effects.write(connection, [intended]))
    with pytest.raises(IntegrityError):
        database.write_now(lambda connection: effects.write(connection, [intended]))


def test_what_a_dead_proxy_left_is_found_and_the_living_ones_is_not(database: Database) -> None:
    owner = person(database)
    dead, living, elsewhere = (an_effect(owner, proxy=proxy) for proxy in ("egress-a-1", "egress-a-2", "egress-b-1"))
    settled = an_effect(owner, proxy="egress-a-1", status="settled")
    database.write_now(lambda connection: effects.write(connection, [dead, living, elsewhere, settled]))
    found = database.read_now(lambda c: effects.unfinished(c, but_of="egress-a-2", proxies="egress-a-"))
    assert [each.id for each in found] == [dead.id]


def test_what_an_earlier_sandbox_left_is_found(database: Database) -> None:
    owner, other = person(database), person(database)
    old, new, others = an_effect(owner), an_effect(owner, sandbox_epoch=2), an_effect(other)
    database.write_now(lambda connection: effects.write(connection, [old, new, others]))
    found = database.read_now(lambda connection: effects.unfinished_before(connection, owner, 2))
    assert [each.id for each in found] == [old.id]


def test_effects_of_a_turn_in_order(database: Database) -> None:
    owner, turn = person(database), uuid4()
    first, second = an_effect(owner, turn=turn), an_effect(owner, turn=turn, method="GET", status="settled")
    database.write_now(lambda connection: effects.write(connection, [first, an_effect(owner), second]))
    assert database.read_now(lambda connection: effects.of_turn(connection, turn)) == [first, second]


def test_use_of_a_day_adds_up(database: Database) -> None:
    owner = person(database)
    for _ in range(3):
        database.write_now(lambda connection: effects.use(connection, owner, "2030-01-01", 1, 500))
    assert database.read_now(lambda connection: effects.used(connection, owner, "2030-01-01")) == (3, 1500)
    assert database.read_now(lambda connection: effects.used(connection, owner, "2030-01-02")) == (0, 0)


def test_a_grant_holds_for_its_principal_host_and_port_alone(database: Database) -> None:
    owner, other = person(database), person(database)
    database.write_now(lambda c: egress_grants.give(c, owner, "example.org", 443, allowed=True, seconds=None, by=owner))
    asked = [(owner, "example.org", 443), (other, "example.org", 443), (owner, "www.example.org", 443)]
    asked.append((owner, "example.org", 80))
    found = [database.read_now(lambda c, a=a: egress_grants.find(c, *a)) is not None for a in asked]
    assert found == [True, False, False, False]


def test_a_grant_for_an_hour_ends(database: Database) -> None:
    owner = person(database)
    database.write_now(lambda c: egress_grants.give(c, owner, "example.org", 443, allowed=True, seconds=3600, by=owner))
    assert database.read_now(lambda c: egress_grants.find(c, owner, "example.org", 443)) is not None
    database.write_now(lambda connection: connection.execute(update(grant).values(until=now_us() - 1)))
    assert database.read_now(lambda c: egress_grants.find(c, owner, "example.org", 443)) is None
    assert database.read_now(lambda c: egress_grants.standing(c, owner)) == []


def test_the_newest_word_about_a_host_counts(database: Database) -> None:
    owner = person(database)
    for allowed in (True, False):
        database.write_now(
            lambda c, a=allowed: egress_grants.give(c, owner, "example.org", 443, allowed=a, seconds=None, by=owner)
        )
    (standing,) = database.read_now(lambda c: egress_grants.standing(c, owner))
    assert not standing.allowed
    assert database.write_now(lambda c: egress_grants.revoke(c, owner, "example.org")) == 1
    assert database.read_now(lambda c: egress_grants.standing(c, owner)) == []
