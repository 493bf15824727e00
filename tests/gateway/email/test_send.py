"""What becomes of an answer on its way out, against a relay that behaves and one that does not."""

from __future__ import annotations

import mailbox
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.channel import Refused, Retry, Sent, Uncertain
from gateway.email.compose import ComposedMail, Thread, compose
from gateway.email.config import BadEmailSetting
from gateway.email.maildir import Maildir
from gateway.email.send import SmtpRelay

from .conftest import Relay


def mail(key: str = "turn-1:0", to: str = "ann@example.com") -> ComposedMail:
    thread = Thread("Hello", "<a@example.com>")
    return compose(
        key=key,
        own_address="porter@example.org",
        to=[to],
        thread=thread,
        text="Hi\n.\nFrom here\n",
        now=datetime(2026, 5, 1, tzinfo=UTC),
    )


async def test_a_mail_arrives_at_the_relay_byte_for_byte(relay: Relay) -> None:
    result = await SmtpRelay(f"smtp://127.0.0.1:{relay.port}").deliver(mail())
    assert isinstance(result, Sent)
    assert relay.received == [mail().data]
    assert relay.senders == ["porter@example.org"]


@pytest.mark.parametrize(
    ("rcpt", "data", "expected"),
    [
        ("450 4.2.1 greylisted", "250 OK", Retry),
        ("550 5.1.1 no such user", "250 OK", Refused),
        ("250 OK", "451 4.3.0 disk full", Retry),
        ("250 OK", "554 5.7.1 spam", Refused),
    ],
)
async def test_the_relays_answer_decides(relay: Relay, rcpt: str, data: str, expected: type) -> None:
    relay.rcpt, relay.data = rcpt, data
    result = await SmtpRelay(f"smtp://127.0.0.1:{relay.port}").deliver(mail())
    assert isinstance(result, expected)
    assert isinstance(result, Retry | Refused)
    assert (rcpt if rcpt != "250 OK" else data).split(" ", 1)[1] in result.reason


async def test_a_connection_lost_after_the_data_is_uncertain(relay: Relay) -> None:
    relay.hang_up = True
    result = await SmtpRelay(f"smtp://127.0.0.1:{relay.port}", timeout=5).deliver(mail())
    assert isinstance(result, Uncertain)


async def test_no_relay_at_all_is_tried_again(unused_tcp_port: int) -> None:
    result = await SmtpRelay(f"smtp://127.0.0.1:{unused_tcp_port}", timeout=2).deliver(mail())
    assert isinstance(result, Retry)
    assert str(unused_tcp_port) in result.reason


async def test_an_address_beyond_ascii_travels_by_smtputf8(relay: Relay) -> None:
    result = await SmtpRelay(f"smtp://127.0.0.1:{relay.port}").deliver(mail(to="jdöe@example.com"))
    assert isinstance(result, Sent)
    assert "To: jdöe@example.com".encode() in relay.received[0]


@pytest.mark.parametrize("url", ["http://x", "smtp://", "example.org:25", "smtp://host:99999"])
def test_a_wrong_relay_is_explained_without_its_password(url: str) -> None:
    with pytest.raises(BadEmailSetting, match="smtp://host:port"):
        SmtpRelay(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(BadEmailSetting) as caught:
        SmtpRelay("imap://porter:secret@example.org")
    assert "secret" not in str(caught.value)


async def test_a_maildir_holds_each_mail_once(tmp_path: Path) -> None:
    folder = Maildir(tmp_path / "outgoing-mail")
    assert isinstance(await folder.deliver(mail()), Sent)
    assert isinstance(await folder.deliver(mail()), Sent)
    assert isinstance(await folder.deliver(mail("turn-1:1")), Sent)
    box = mailbox.Maildir(tmp_path / "outgoing-mail", create=False)
    assert len(box) == 2
    assert not list((tmp_path / "outgoing-mail" / "tmp").iterdir())
    [first, *_] = list((tmp_path / "outgoing-mail" / "new").iterdir())
    assert first.stat().st_mode & 0o077 == 0


async def test_a_mail_that_was_read_is_not_delivered_again(tmp_path: Path) -> None:
    folder = Maildir(tmp_path)
    await folder.deliver(mail())
    [delivered] = (tmp_path / "new").iterdir()
    delivered.rename(tmp_path / "cur" / f"{delivered.name}:2,S")
    await folder.deliver(mail())
    assert not list((tmp_path / "new").iterdir())


async def test_a_leftover_of_a_crash_does_no_harm(tmp_path: Path) -> None:
    folder = Maildir(tmp_path)
    await folder.deliver(mail("other"))
    (tmp_path / "tmp" / "half-written").write_bytes(b"Fro")
    await folder.deliver(mail())
    assert len(list((tmp_path / "new").iterdir())) == 2
