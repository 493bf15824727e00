"""Several authors: one reader sees the first, another the last, and a signature covers either."""

from __future__ import annotations

import pytest

from nightporter.testing.mail import MailDomain, letter
from tests.mailrooms import OWN, Mailroom

MALLORY = b"From: mallory@mallory.test\r\n"
ANN = b"From: ann@example.org\r\n"


@pytest.mark.parametrize(
    "fields",
    [
        ANN + MALLORY,
        MALLORY + ANN,
        MALLORY + b"from: ann@example.org\r\n",
        MALLORY + b"From : ann@example.org\r\n",
        MALLORY + b" \r\nFrom: ann@example.org\r\n",
        MALLORY + b"X: y\rFrom: ann@example.org\r\n",
        MALLORY + b"X: y\n\tz\x00\r\nFrom: ann@example.org\r\n",
        b"From: mallory@mallory.test, ann@example.org\r\n",
        b"From: ann@example.org, mallory@mallory.test\r\n",
        b"From: ann@example.org\r\n <mallory@mallory.test>\r\n",
        b"From: group: ann@example.org, mallory@mallory.test;\r\n",
        b"From: mallory@mallory.test;ann@example.org\r\n",
        b"From: <ann@example.org>mallory@mallory.test\r\n",
        b"From: ann@example.org (<mallory@mallory.test>) <mallory@mallory.test>\r\n",
        b"From: <@mallory.test:ann@example.org>\r\n",
        b'From: "ann@example.org"@mallory.test\r\n',
        b"From: ann@example.org@mallory.test\r\n",
        b"From: ann%example.org@mallory.test (ann@example.org) <ann@example.org>\r\n",
        b"From:\r\n",
        b"Resent-From: ann@example.org\r\n",
    ],
)
async def test_no_mail_with_two_authors_is_anyones(room: Mailroom, fields: bytes) -> None:
    mallory = MailDomain(room.dns, "mallory.test", serial=1)
    head, _, rest = bytes(letter(to=OWN)).partition(b"\r\n")
    assert head.startswith(b"From:")
    mail = mallory.sign(b"From: mallory@mallory.test\r\n" + rest).replace(b"From: mallory@mallory.test\r\n", fields, 1)
    code, _ = await room.send(mail)
    assert code == 550 or fields in (b"From:\r\n", b"Resent-From: ann@example.org\r\n")
    signed = MailDomain.sign(mallory, b"From: mallory@mallory.test\r\n" + rest)
    header, _, _ = signed.partition(b"From:")
    await room.send(header + fields + rest)
    assert room.nothing_is_kept()
