"""Mail from strangers, as the default settings take it: whoever proves themselves is answered, and nobody else."""

from __future__ import annotations

import smtplib
from collections.abc import Callable

import pytest

from nightporter.testing import House
from nightporter.testing.dns import DnsServer
from nightporter.testing.mail import MailDomain, letter
from tests.scenarios import post


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
