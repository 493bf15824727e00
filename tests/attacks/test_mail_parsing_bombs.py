# ruff: noqa: E501
"""Mails made to hang or kill their reader: each is read within the deadline, and none raises."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.email.parse import parse

SECONDS = 4.0
"""The deadline is 2 s; shared machines get room."""

HEAD = b"From: a@example.com\r\nSubject: Re: x\r\nIn-Reply-To: <a@b>\r\n"
PLAIN = HEAD + b"Content-Type: text/plain; charset=utf-8\r\n\r\n"
HTML = HEAD + b"Content-Type: text/html; charset=utf-8\r\n\r\n"
MIXED = HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"


def nested_multiparts() -> bytes:
    levels = (b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (i, i) for i in range(20_000))
    return HEAD + b"".join(levels) + b"Content-Type: text/plain\r\n\r\nhi\r\n"


def nested_messages() -> bytes:
    inner = b"From: a@b\r\n\r\nhi"
    for _ in range(25):
        inner = b"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(inner)
    return inner


BOMBS: dict[str, Callable[[], bytes]] = {
    "one line of 100 KB": lambda: PLAIN + b"On a " + b"a " * 50_000,
    "one line of 100 KB that ends as an attribution": lambda: PLAIN + b"On Mon 1 2020 " + b"a " * 50_000 + b"wrote:",
    "one line of 20 MB": lambda: PLAIN + b"On " * 7_000_000,
    "10,000 From lines": lambda: PLAIN + b"From: x\n" * 10_000,
    "10,000 different From lines": lambda: PLAIN + b"".join(b"From: x%d@y.z\n" % i for i in range(10_000)),
    "10,000 From fields": lambda: b"From: x@y.z\r\n" * 10_000 + b"\r\nhi",
    "4,000,000 header lines": lambda: b"A: b\r\n" * 4_000_000,
    "one field folded 6,000,000 times": lambda: b"Subject:" + b"\r\n x" * 6_000_000,
    "a million quoted lines": lambda: PLAIN + b"> x\n" * 1_000_000,
    "quotes and answers in turn": lambda: PLAIN + b"> a question as long as they come, on and on and\nanswer\n" * 60_000,
    "rules": lambda: PLAIN + (b"-" * 190 + b"x\n") * 20_000,
    "disclaimers": lambda: PLAIN + b"confidential, intended recipient\n\n" * 10_000 + b"end",
    "signature delimiters": lambda: PLAIN + b"--\n" * 20_000,
    "attributions": lambda: PLAIN + b"On Mon, Jan 1, 2020 at 10:00 x@y.z said nothing:\nfoo\n" * 20_000,
    "25 MB of line ends": lambda: PLAIN + b"\n" * 24_900_000,
    "nested multiparts": nested_multiparts,
    "nested messages": nested_messages,
    "100,000 parts": lambda: MIXED + b"--b\r\n\r\nx\r\n" * 100_000,
    "6,000,000 false boundaries": lambda: MIXED + b"x--b" * 6_000_000,
    "500 parts with long parameters": lambda: MIXED + (b'--b\r\nContent-Type: a/x; name="' + b"a" * 8000 + b'"\r\n\r\n') * 500,
    "encoded words": lambda: b"Subject: " + b"=?utf-8?q?=41?= " * 50_000 + b"\r\n\r\nx",
    "unfinished encoded words": lambda: b"Subject: " + b"=?a?q?" * 10_000 + b"\r\n\r\nx",
    "address field of parentheses": lambda: b"From: " + b"(" * 60_000 + b"\r\nTo: " + b"<" * 60_000 + b"\r\n\r\nx",
    "deep HTML": lambda: HTML + b"<div>" * 90_000,
    "misnested HTML": lambda: HTML + b"<div><table></div></table>" * 19_000,
    "HTML list that nests": lambda: HTML + b"<li><ul>" * 60_000,
    "HTML that reopens": lambda: HTML + b"<b></p>" * 70_000,
    "HTML of a million signs": lambda: HTML + b"<" * 1_000_000,
    "wide HTML": lambda: HTML + b"<p>x</p>" * 60_000,
    "quotes in quotes": lambda: HTML + b"<blockquote><pre>" * 450 + b"\n" * 900_000,
    "uuencoded nonsense": lambda: HEAD + b"Content-Type: a/b\r\nContent-Transfer-Encoding: x-uue\r\n\r\n" + b"Mzz\n" * 5_000_000,
    "flowed text": lambda: HEAD + b"Content-Type: text/plain; format=flowed\r\n\r\n" + b"x \r\n" * 2_000_000,
    "punycode": lambda: HEAD + b"Content-Type: text/plain; charset=punycode\r\n\r\n" + b"a-" * 200_000,
    "delivery report": lambda: HEAD + b"Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: message/delivery-status\r\n\r\n" + b"A: b\r\n\r\n" * 3_000_000,
    "random bytes": lambda: os.urandom(25_000_000),
    "40 MB": lambda: PLAIN + b"x\n" * 20_000_000,
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_read_in_time(name: str) -> None:
    bomb = BOMBS[name]()
    begun = time.process_time()
    mail = parse(bomb)
    assert time.process_time() - begun < SECONDS
    assert len(mail.reply_text) <= 3_000_000
    assert len(mail.attachments) <= 500


@pytest.mark.parametrize(
    "charset", ["x-unknown", "zlib", "base64", "idna", "undefined", "utf-16", "../../x", "", "rot13", "a" * 5000]
)
def test_a_charset_label_never_fails(charset: str) -> None:
    mail = parse(
        HEAD + b"Content-Type: text/plain; charset=" + charset.encode() + b"\r\n\r\nHello\xff\x00\xed\xa0\x80\r\n"
    )
    assert "\x00" not in mail.reply_text
    mail.reply_text.encode()  # holds no lone surrogate


@settings(max_examples=200)
@given(st.binary(max_size=2000))
def test_any_bytes_are_a_mail(data: bytes) -> None:
    mail = parse(data)
    (mail.reply_text + mail.subject + mail.from_name + mail.context).encode()


@settings(max_examples=200)
@given(st.lists(st.sampled_from([
    b"Content-Type: multipart/mixed; boundary=b\r\n", b"Content-Type: message/rfc822\r\n", b"\r\n", b"--b\r\n", b"--b--\r\n", b"Content-Type: text/html\r\n",
    b"<blockquote>", b"</div>", b"> quoted\r\n", b"On Mon, 1 Jan 2020 at 10:00, A <a@b.c> wrote:\r\n", b"-- \r\n", b"From: x\r\n", b"Subject: =?utf-8?b?",
    b"words\r\n", b"Content-Transfer-Encoding: base64\r\n", b"\xff\xfe\x00", b"Content-Disposition: attachment; filename*0*=utf-8''%ff\r\n",
]), max_size=60))  # fmt: skip
def test_pieces_of_mail_in_any_order_are_a_mail(pieces: list[bytes]) -> None:
    mail = parse(b"".join(pieces))
    (mail.reply_text + mail.context).encode()
