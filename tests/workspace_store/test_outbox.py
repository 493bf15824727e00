"""The outbox: in order per conversation, never twice at once, and a lost reply holds up nothing."""

from __future__ import annotations

import threading
from collections import defaultdict
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, text

from tests import processes
from workspace_store import outbox, undelivered
from workspace_store.database import Database, database_now_us
from workspace_store.outbox import Address, Reply

OWNER = uuid4()


def queue(
    database: Database, *words: str, conversation: str = "c", channel: str = "mail", key: str | None = None
) -> list[UUID]:
    def transaction(connection: Connection) -> list[UUID]:
        return [
            outbox.queue(
                connection, key=key or uuid4().hex, principal=OWNER, turn=None, inbox=None,
                to=Address(channel, "", conversation, ""), content={"text": word},
            )
            for word in words
        ]  # fmt: skip

    return database.write_now(transaction)


def claim(database: Database, claimer: str = "a", dead: tuple[str, ...] = (), limit: int = 32) -> list[Reply]:
    return database.write_now(lambda connection: outbox.claim(connection, ["mail"], claimer, list(dead), limit))


def words(replies: list[Reply]) -> list[str]:
    return [reply.content["text"] for reply in replies]


def sent(database: Database, reply: Reply, claimer: str = "a") -> bool:
    return database.write_now(lambda connection: outbox.sent(connection, reply.id, claimer, "external"))


def test_replies_leave_in_order_in_each_conversation(database: Database) -> None:
    queue(database, "1", "2", "3")
    queue(database, "x", "y", conversation="d")
    left = []
    while claimed := claim(database):
        left.append(words(claimed))
        for reply in claimed:
            assert sent(database, reply)
    assert left == [["1", "x"], ["2", "y"], ["3"]]


def test_the_same_key_is_the_same_reply(database: Database) -> None:
    assert queue(database, "once", key="k") == queue(database, "again", key="k")
    assert words(claim(database)) == ["once"]


def test_what_is_under_way_is_not_claimed_again(database: Database) -> None:
    queue(database, "1", "2")
    assert words(claim(database)) == ["1"]
    assert claim(database, "a") == []
    assert claim(database, "b") == []


def test_a_dead_gateways_reply_is_claimed_at_once_and_known_to_be_uncertain(database: Database) -> None:
    queue(database, "1", "2")
    (first,) = claim(database, "a")
    (again,) = claim(database, "b", dead=("a",))
    assert (again.id, first.was_sending, again.was_sending) == (first.id, False, True)
    # The dead one's word comes too late; the living one's counts, and what waited goes on.
    assert sent(database, first, "a") is False
    assert sent(database, again, "b") is True
    assert words(claim(database, "b")) == ["2"]


def test_a_claim_ends_for_others_but_not_for_its_holder(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail server may take minutes: the gateway that still talks to it must not send a second time."""
    monkeypatch.setattr(outbox, "CLAIM_SECONDS", -1)
    queue(database, "slow")
    assert words(claim(database, "a")) == ["slow"]
    assert claim(database, "a") == []
    monkeypatch.undo()
    database.write_now(lambda connection: outbox.renew(connection, "a"))
    assert claim(database, "b") == []
    monkeypatch.setattr(outbox, "CLAIM_SECONDS", -1)
    database.write_now(lambda connection: outbox.renew(connection, "a"))
    (taken,) = claim(database, "b")
    assert taken.was_sending is True


def test_a_dead_letter_holds_nothing_up_and_says_why(database: Database) -> None:
    queue(database, "bad", "good")
    (bad,) = claim(database)
    assert database.write_now(lambda connection: outbox.bury(connection, bad.id, "a", "550 no such user \ud800"))
    assert words(claim(database)) == ["good"]
    (letter,) = database.read_now(undelivered.newest)
    assert letter == undelivered.Undelivered(bad.id, "mail", "dead letter", "550 no such user \ufffd")
    assert database.read_now(outbox.counts) == {"queued": 0, "sending": 1, "dead": 1, "possibly_repeated": 0}


def test_a_reply_that_waits_to_be_tried_again_keeps_its_place(database: Database) -> None:
    queue(database, "1", "2")
    (first,) = claim(database)
    later = database.read_now(database_now_us) + 3_600_000_000
    assert database.write_now(lambda connection: outbox.retry(connection, first.id, "a", "busy", later))
    assert claim(database) == []
    assert database.read_now(lambda connection: outbox.any_due(connection, ["mail"])) is True
    database.write_now(lambda c: c.execute(text("UPDATE outbox SET next_at = 0")))
    (again,) = claim(database)
    assert (again.content["text"], again.attempts, again.was_sending) == ("1", 1, False)


def test_an_uncertain_reply_is_uncertain_when_it_comes_again(database: Database) -> None:
    queue(database, "1", "2")
    (first,) = claim(database)
    assert database.write_now(lambda connection: outbox.leave_uncertain(connection, first.id, "a", "timeout", 0))
    (again,) = claim(database, "b")
    assert (again.id, again.attempts, again.was_sending) == (first.id, 1, True)
    assert database.write_now(lambda connection: outbox.sent(connection, again.id, "b", None, repeated=True))
    assert database.read_now(outbox.counts)["possibly_repeated"] == 1


def test_only_the_channels_asked_for_are_claimed(database: Database) -> None:
    queue(database, "other", channel="slack")
    assert database.read_now(lambda connection: outbox.any_due(connection, ["mail"])) is False
    assert claim(database) == []


def test_claimers_are_named_while_they_send(database: Database) -> None:
    queue(database, "1")
    assert database.read_now(outbox.claimers) == []
    (reply,) = claim(database, "a")
    assert database.read_now(outbox.claimers) == ["a"]
    sent(database, reply)
    assert database.read_now(outbox.claimers) == []


def deliver_all(url: str, name: str, record: processes.Queue) -> None:  # type: ignore[valid-type]
    """A gateway that sends all it gets until nothing is left."""
    database = Database(url)
    while database.read_now(outbox.counts)["queued"]:
        for reply in claim(database, name, limit=3):
            record.put((reply.conversation, reply.number))  # type: ignore[attr-defined]
            assert sent(database, reply, name)
    record.put(None)  # type: ignore[attr-defined]
    database.close()


def test_two_gateways_at_once_send_everything_once_and_in_order(database: Database) -> None:
    for number in range(12):
        for conversation in "abcd":
            queue(database, str(number), conversation=conversation)
    record = processes.Queue()
    gateways = [processes.start(deliver_all, database.url, name, record) for name in ("g1", "g2")]
    sent_in: dict[str, list[int]] = defaultdict(list)
    running = len(gateways)
    while running:
        item = record.get(timeout=60)
        if item is None:
            running -= 1
        else:
            sent_in[item[0]].append(item[1])
    assert processes.codes(*gateways) == [0, 0]
    assert [len(numbers) for numbers in sent_in.values()] == [12] * 4
    assert all(len(set(numbers)) == 12 for numbers in sent_in.values())
    settled = "SELECT conversation, number FROM outbox ORDER BY settled_at"
    order = database.read_now(lambda connection: connection.execute(text(settled)).all())
    for conversation in "abcd":
        numbers = [row.number for row in order if row.conversation == conversation]
        assert numbers == sorted(numbers)


def test_a_claim_that_is_not_committed_yet_hides_what_is_behind_it(postgresql_url: str) -> None:
    """SKIP LOCKED must not step over the locked first reply of a strand to its second."""
    first, second = Database(postgresql_url), Database(postgresql_url)
    queue(first, "1", "2")
    queue(first, "x", conversation="d")

    def while_claiming(connection: Connection) -> None:
        (mine,) = outbox.claim(connection, ["mail"], "a", [], 1)
        assert mine.content["text"] == "1"
        assert words(claim(second, "b")) == ["x"]

    first.write_now(while_claiming)
    assert claim(second, "b") == []
    first.close()
    second.close()


def test_a_reply_sent_while_another_looks_is_neither_repeated_nor_overtaken(postgresql_url: str) -> None:
    """The other's look is older than the claim: it must check again what it locks."""
    first, second = Database(postgresql_url), Database(postgresql_url)
    queue(first, "1", "2")
    (held,) = claim(first, "a")
    looked, settled = threading.Event(), threading.Event()
    found: list[list[str]] = []

    def look_late(connection: Connection) -> None:
        connection.execute(text("SELECT 1 FROM outbox")).all()
        looked.set()
        assert settled.wait(30)
        found.append(words(outbox.claim(connection, ["mail"], "b", [])))

    thread = threading.Thread(target=second.write_now, args=[look_late])
    thread.start()
    assert looked.wait(30)
    assert sent(first, held, "a")
    settled.set()
    thread.join(30)
    assert found == [["2"]]
    assert claim(first, "a") == []
    first.close()
    second.close()
