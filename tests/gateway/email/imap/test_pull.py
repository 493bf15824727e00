"""Fetching from a real mailbox: each mail once, read only after it was recorded, whatever breaks in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from gateway.email import texts
from gateway.email.imap import pull
from gateway.email.smtp_server import Accepted, ReceivedMail, Refused, TryLater, Verdict
from nightporter.testing.imap import ImapServer
from workspace_store.database import Database

from .conftest import Start, Taken, mail, subject


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "FIRST_RETRY_SECONDS", 0.1)
    monkeypatch.setattr(pull, "PUT_OFF_SECONDS", 0.3)


async def in_thread(call: object, *args: object) -> object:
    return await asyncio.to_thread(call, *args)  # type: ignore[arg-type]


async def test_unread_mail_is_fetched_as_it_is_and_marked_after(server: ImapServer, start: Start, taken: Taken) -> None:
    server.deliver(mail("one"))
    seen_while_accepting: list[list[bool]] = []

    def look(received: ReceivedMail) -> Verdict:
        seen_while_accepting.append(server.seen())
        return Accepted()

    taken.verdict = look
    await start()
    await taken.until(lambda: len(taken.mails) == 1)
    [received] = taken.mails
    assert received.raw == mail("one")
    assert (received.peer, received.envelope_from, received.protocol) == ("", None, "imap")
    assert received.received_at is not None
    assert abs(datetime.now(UTC) - received.received_at) < timedelta(minutes=5)
    assert seen_while_accepting == [[False]]
    await taken.until(lambda: server.seen() == [True])


async def test_new_mail_comes_at_once(server: ImapServer, start: Start, taken: Taken) -> None:
    await start()
    server.deliver(mail("first"))
    await taken.until(lambda: len(taken.mails) == 1)
    await asyncio.sleep(0.5)  # it waits in IDLE now
    began = asyncio.get_running_loop().time()
    await in_thread(server.deliver, mail("second"))
    await taken.until(lambda: len(taken.mails) == 2)
    assert asyncio.get_running_loop().time() - began < 8, "told by IDLE, not found by looking"
    assert taken.subjects() == ["first", "second"]


@pytest.mark.slow
async def test_idle_is_issued_again_and_again(server: ImapServer, start: Start, taken: Taken) -> None:
    await start(idle_seconds=1.2)
    await asyncio.sleep(3)
    await in_thread(server.deliver, mail("late"))
    await taken.until(lambda: taken.subjects() == ["late"])
    assert (server.folder / "pymap.log").read_text().count("Error") == 0


async def test_a_mail_that_someone_has_read_by_hand_is_not_lost(server: ImapServer, start: Start, taken: Taken) -> None:
    first = await start()
    server.deliver(mail("one"))
    await taken.until(lambda: server.seen() == [True])
    first.task.cancel()  # type: ignore[attr-defined]
    await asyncio.wait([first.task])  # type: ignore[attr-defined]
    server.deliver(mail("read by hand"), flags="(\\Seen)")
    await start()
    await taken.until(lambda: taken.subjects()[-2:] == ["one", "read by hand"])


@pytest.mark.slow
async def test_the_past_of_a_mailbox_is_left_alone(server: ImapServer, start: Start, taken: Taken) -> None:
    server.deliver(mail("old"), at=datetime.now(UTC) - timedelta(days=30))
    server.deliver(mail("read"), flags="(\\Seen)")
    server.deliver(mail("unread"))
    server.deliver(mail("read too"), flags="(\\Seen)")
    await start()
    await taken.until(lambda: len(taken.mails) == 1)
    server.deliver(mail("new"))
    await taken.until(lambda: len(taken.mails) == 2)
    assert taken.subjects() == ["unread", "new"]


async def test_nothing_is_fetched_twice_after_a_restart(server: ImapServer, start: Start, taken: Taken) -> None:
    for name in ("a", "b", "c"):
        server.deliver(mail(name))
    first = await start()
    await taken.until(lambda: len(taken.mails) == 3)
    await asyncio.sleep(0.5)
    first.task.cancel()  # type: ignore[attr-defined]
    await asyncio.wait([first.task])  # type: ignore[attr-defined]
    await start()
    server.deliver(mail("d"))
    await taken.until(lambda: len(taken.mails) == 4)
    assert taken.subjects() == ["a", "b", "c", "d"]


@pytest.mark.slow
async def test_a_server_that_goes_away_and_comes_back(server: ImapServer, start: Start, taken: Taken) -> None:
    puller = await start()
    server.deliver(mail("before"))
    await taken.until(lambda: server.seen() == [True])
    await asyncio.sleep(0.5)
    await in_thread(server.stop)
    await taken.until(lambda: bool(puller.wrong))
    assert "email.imap_url" in puller.wrong
    await in_thread(server.start)
    await in_thread(server.deliver, mail("after"))
    await taken.until(lambda: taken.subjects() == ["before", "after"])
    assert puller.wrong == ""


@pytest.mark.slow
async def test_mails_numbered_anew_are_looked_through_again(server: ImapServer, start: Start, taken: Taken) -> None:
    """The inbox drops those it knows by their Message-ID; none that came meanwhile is missed."""
    await start()
    server.deliver(mail("one"))
    await taken.until(lambda: len(taken.mails) == 1)
    await in_thread(server.number_anew)
    await in_thread(server.deliver, mail("two"))
    await taken.until(lambda: "two" in taken.subjects())
    assert taken.subjects() == ["one", "one", "two"]


async def test_a_wrong_password_is_told(server: ImapServer, start: Start, taken: Taken) -> None:
    puller = await start(server.url.replace("mailbox-secret", "wrong"))
    await taken.until(lambda: bool(puller.wrong))
    assert "wrong" not in puller.wrong.partition("check")[0]
    assert "porter@127.0.0.1" in puller.wrong


async def test_a_folder_that_is_not_there_is_told(server: ImapServer, start: Start, taken: Taken) -> None:
    puller = await start(server.url + "/Nowhere")
    await taken.until(lambda: "folder" in puller.wrong)


async def test_poison_is_kept_aside_and_holds_nobody_up(server: ImapServer, start: Start, taken: Taken) -> None:
    def choke(received: ReceivedMail) -> Verdict:
        if subject(received.raw) == "poison":
            raise RuntimeError("nobody was prepared for this")
        return Accepted()

    taken.verdict = choke
    for name in ("poison", "wholesome"):
        server.deliver(mail(name))
    await start()
    await taken.until(lambda: len(taken.mails) == 1)
    assert taken.subjects() == ["wholesome"]
    assert taken.aside == [mail("poison")]


async def test_a_sender_who_cannot_be_checked_now_holds_nobody_up(
    server: ImapServer, start: Start, taken: Taken
) -> None:
    doubtful = True

    def judge(received: ReceivedMail) -> Verdict:
        if subject(received.raw) == "doubtful" and doubtful:
            return TryLater("no DNS", texts.NOT_PROVEN_YET)
        return Accepted()

    taken.verdict = judge
    for name in ("doubtful", "next"):
        server.deliver(mail(name))
    await start()
    await taken.until(lambda: "next" in taken.subjects())
    await taken.until(lambda: server.seen() == [False, True])
    doubtful = False
    await taken.until(lambda: server.seen() == [True, True])
    assert taken.subjects().count("next") == 1


async def test_what_is_not_recorded_stays_unread_and_comes_again(
    server: ImapServer, start: Start, taken: Taken
) -> None:
    away = True
    taken.verdict = lambda received: TryLater() if away else Accepted()
    server.deliver(mail("one"))
    await start()
    await taken.until(lambda: len(taken.mails) >= 2)
    assert server.seen() == [False]
    away = False
    await taken.until(lambda: server.seen() == [True])


async def test_unproven_mail_stays_unread_for_its_owner(server: ImapServer, start: Start, taken: Taken) -> None:
    taken.verdict = lambda received: Refused("forged")
    server.deliver(mail("forged"))
    await start()
    await taken.until(lambda: len(taken.mails) == 1)
    server.deliver(mail("next"))
    await taken.until(lambda: len(taken.mails) == 2)
    assert server.seen() == [False, False]


async def test_a_mail_too_large_is_not_even_fetched(server: ImapServer, start: Start, taken: Taken) -> None:
    server.deliver(mail("large") + b"x" * 200_000)
    server.deliver(mail("small"))
    await start()
    await taken.until(lambda: len(taken.mails) == 1)
    assert taken.subjects() == ["small"]


@pytest.mark.slow
async def test_one_gateway_reads_and_another_takes_over(
    server: ImapServer, start: Start, taken: Taken, sqlite: Database
) -> None:
    first = await start()
    server.deliver(mail("one"))
    await taken.until(lambda: len(taken.mails) == 1)
    second = await start()
    server.deliver(mail("two"))
    await taken.until(lambda: len(taken.mails) == 2)
    await asyncio.sleep(0.5)
    assert taken.subjects() == ["one", "two"]
    assert second._session is None
    first.task.cancel()  # type: ignore[attr-defined]
    await asyncio.wait([first.task])  # type: ignore[attr-defined]
    server.deliver(mail("three"))
    await taken.until(lambda: len(taken.mails) == 3)
    assert second._session is not None


async def test_a_password_goes_over_the_network_only_with_tls() -> None:
    from gateway.email.imap.session import Account, Session

    account = Account.of("imap://porter:secret@mail.example.test:1/INBOX")
    assert not account.tls
    with pytest.raises(OSError):
        await in_thread(Session, account)
