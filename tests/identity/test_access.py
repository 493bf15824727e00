"""Who may speak: proof first, then the policy; a name on display decides nothing."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from identity import users
from identity.access import Access, Policy, admit, email_key, is_admin
from identity.users import Claim, User
from workspace_store.database import Database

ANN = Claim("email", "", "ann@example.org", "Ann", "dmarc")
ADMINS = ["email:ann@EXAMPLE.org", "slack:T1/U1", "telegram:42"]


def speak(database: Database, claim: Claim, policy: Policy = "allowlist", admins: list[str] = ADMINS) -> User | None:
    return database.write_now(lambda connection: admit(connection, claim, Access(policy, admins)))


def rows(database: Database) -> int:
    tables = ("user_account", "identity", "identity_event", "principal")
    return sum(
        database.read_now(lambda c, t=t: c.execute(text(f"SELECT count(*) FROM {t}")).scalar_one()) for t in tables
    )


@pytest.mark.parametrize("policy", ["pairing", "allowlist", "open"])
def test_nobody_is_admitted_without_proof_and_nothing_of_theirs_is_stored(database: Database, policy: Policy) -> None:
    for claim in (Claim("email", "", "ann@example.org", "Ann"), Claim("local", "", "owner", "owner")):
        assert speak(database, claim, policy) is None
    assert rows(database) == 0


def test_an_admin_on_the_list_is_admitted_once_and_found_again(database: Database) -> None:
    first, again = speak(database, ANN), speak(database, ANN)
    assert first is not None
    assert first == again
    assert (first.role, first.display_name) == ("admin", "Ann")
    assert [one.name for one in database.read_now(lambda c: users.identities(c, first.id))] == ["email:ann@example.org"]


@pytest.mark.parametrize("policy", ["pairing", "allowlist"])
def test_a_proven_stranger_is_not_admitted_and_not_stored(database: Database, policy: Policy) -> None:
    assert speak(database, Claim("email", "", "eve@example.org", "Ann", "dmarc"), policy) is None
    assert rows(database) == 0


def test_an_open_house_admits_proven_strangers_as_members(database: Database) -> None:
    eve = speak(database, Claim("email", "", "eve@example.org", "", "dmarc"), "open")
    assert eve is not None
    assert (eve.role, eve.display_name) == ("member", "eve@example.org")


def test_an_unproven_message_of_a_known_person_is_not_theirs(database: Database) -> None:
    speak(database, ANN)
    assert speak(database, Claim("email", "", "ann@example.org", "Ann", "")) is None


def test_a_blocked_person_is_not_admitted(database: Database) -> None:
    ann = speak(database, ANN)
    assert ann is not None
    database.write_now(lambda connection: connection.execute(text("UPDATE user_account SET blocked = true")))
    assert speak(database, ANN) is None


def test_a_member_who_is_put_on_the_list_becomes_an_admin(database: Database) -> None:
    assert speak(database, ANN, "open", []) is not None
    found = speak(database, ANN)
    assert found is not None
    assert database.read_now(lambda c: users.find(c, str(found.id))).role == "admin"  # type: ignore[union-attr]


def test_the_same_id_at_another_channel_or_account_is_another_person(database: Database) -> None:
    claims = [Claim("slack", "T1", "U1", proof="platform"), Claim("slack", "T2", "U1", proof="platform"),
              Claim("telegram", "T1", "U1", proof="platform")]  # fmt: skip
    found = {speak(database, claim, "open").id for claim in claims}  # type: ignore[union-attr]
    assert len(found) == 3


@pytest.mark.parametrize(
    ("claim", "admin"),
    [
        (Claim("local", "", "owner"), True),
        (Claim("local", "", "Owner"), False),
        (Claim("local", "", "bob"), False),
        (Claim("email", "", "ann@example.org"), True),
        (Claim("email", "", "Ann@example.org"), False),
        (Claim("email", "", "ann@example.org.evil.test"), False),
        (Claim("slack", "T1", "U1"), True),
        (Claim("slack", "T2", "U1"), False),
        (Claim("slack", "T1", "u1"), False),
        (Claim("telegram", "9", "42"), True),
        (Claim("telegram", "9", "421"), False),
        (Claim("webhook", "", "email:ann@example.org"), False),
    ],
)
def test_the_list_names_admins_exactly(claim: Claim, admin: bool) -> None:
    assert is_admin(claim, ADMINS) is admin


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("Ann@Example.ORG", "Ann@example.org"),
        (" ann@example.org ", "ann@example.org"),
        ('"a@b"@Example.org', '"a@b"@example.org'),
        ("nobody", "nobody"),
    ],
)
def test_an_address_is_a_key_by_its_domain_in_lower_case(address: str, key: str) -> None:
    assert email_key(address) == key


def test_people_are_found_by_id_by_channel_or_by_local_name(database: Database) -> None:
    ann, owner = speak(database, ANN), speak(database, Claim("local", "", "owner", "owner", "token"))
    assert ann is not None
    assert owner is not None

    def find(name: str) -> User | None:
        return database.read_now(lambda connection: users.find(connection, name))

    assert find(str(ann.id)) == find("email:ann@example.org") == ann
    assert find("owner") == find("local:owner") == owner
    assert find("nobody") is None
