"""Mail from strangers, as the default settings take it: whoever proves themselves is answered, and nobody else."""

from __future__ import annotations

import smtplib
from collections.abc import Callable
from pathlib import Path

import pytest

from nightporter.testing import House, wait_until
from nightporter.testing.dns import DnsServer
from nightporter.testing.imap import ImapServer
from nightporter.testing.mail import MailDomain, letter
from tests.scenarios import post

pytestmark = pytest.mark.slow


def test_a_signed_mail_is_answered_and_a_forged_one_refused(make_house: Callable[..., House]) -> None:
    with DnsServer() as dns:
        house = make_house(email__dns_server=dns.address, access__admins="email:ann@example.org")
        ann = MailDomain(dns, "example.org")
        forged, signed = letter("$ echo forged"), letter("$ echo signed")
        with pytest.raises(smtplib.SMTPDataError) as caught:
            post.send(house, bytes(forged), owner=False)
        assert caught.value.smtp_code == 550
        post.send(house, ann.sign(signed), owner=False)
        assert "signed" in post.text_of(post.reply_to(house, signed))
        assert post.replies_to(house, forged) == []
        assert post.reply_to(house, signed)["To"] == "Ann <ann@example.org>"


def test_mail_is_fetched_from_a_mailbox_and_answered(make_house: Callable[..., House], tmp_path: Path) -> None:
    mailbox = ImapServer(tmp_path / "imap").start()
    try:
        with DnsServer() as dns:
            ann = MailDomain(dns, "example.org")
            fetched, forged, later = letter("$ echo fetched"), letter("$ echo forged"), letter("$ echo later")
            mailbox.deliver(ann.sign(fetched))
            mailbox.deliver(bytes(forged))
            house = make_house(
                email__dns_server=dns.address, access__admins="email:ann@example.org", email__imap_url=mailbox.url
            )
            assert "fetched" in post.text_of(post.reply_to(house, fetched))
            mailbox.deliver(ann.sign(later))
            assert "later" in post.text_of(post.reply_to(house, later))
            assert post.replies_to(house, forged) == []
            wait_until(lambda: mailbox.seen() == [True, False, True], "what was recorded is marked as read")
    finally:
        mailbox.stop()
