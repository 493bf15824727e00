"""The one author of a mail, read strictly."""

from __future__ import annotations

import pytest

from gateway.email.proof.author import author_of, read_strictly
from gateway.email.senders import Unproven


@pytest.mark.parametrize(
    ("field", "address", "name"),
    [
        ("ann@example.org", "ann@example.org", ""),
        ("Ann <ann@Example.ORG>", "ann@example.org", "Ann"),
        ('"Ann, of Example" <ann@example.org>', "ann@example.org", "Ann, of Example"),
        ('"Ann \\"the\\" One" <ann@example.org>', "ann@example.org", "Ann the One"),
        ("=?utf-8?q?J=C3=BCrgen?= <j@example.org>", "j@example.org", "Jürgen"),
        ("Ann\r\n <ann@example.org>", "ann@example.org", "Ann"),
        ("ann@example.org (Ann)", "ann@example.org", ""),
        ("Ann (via the lists) <ann+x@sub.example.org>", "ann+x@sub.example.org", "Ann"),
        ("Ann O'Hara-Smith <o'hara@example.org>", "o'hara@example.org", "Ann O'Hara-Smith"),
        ("安 <ann@例え.jp>", "ann@xn--r8jz45g.jp", "安"),
        ("<ann@localhost>", "ann@localhost", ""),
    ],
)
def test_usual_authors(field: str, address: str, name: str) -> None:
    author = author_of(read_strictly(f"From: {field}\r\nTo: x@y.test\r\n\r\nhi".encode()))
    assert (author.address, author.name) == (address, name)


@pytest.mark.parametrize(
    "field",
    [
        "ann",
        "ann@",
        "@example.org",
        "ann@[192.0.2.1]",
        "ann@exa mple.org",
        "ann@-x.org",
        "ann@x..org",
        "a b@example.org",
        "ann@example.org,",
        "ann@example.org; bob",
        "undisclosed:;",
        '""@example.org',
        "ann@" + "x" * 300,
        "ann@\u0430.org\x00",
    ],
)
def test_what_is_no_author(field: str) -> None:
    with pytest.raises(Unproven):
        author_of(read_strictly(f"From: {field}\r\n\r\nhi".encode()))


def test_the_sender_may_be_the_author() -> None:
    raw = b"From: Ann <ann@example.org>\r\nSender: ann@example.org\r\n\r\n"
    assert author_of(read_strictly(raw)).address == "ann@example.org"


def test_a_header_without_a_body_and_with_bare_line_feeds() -> None:
    mail = read_strictly(b"From: ann@example.org\nSubject: x\n y")
    assert mail.values("subject") == [b" x\r\n y\r\n"]
    assert mail.body == b""


def test_bare_line_feeds_of_the_body_become_line_ends() -> None:
    assert read_strictly(b"A: b\r\n\r\none\ntwo\r\nthree\rfour\n").body == b"one\r\ntwo\r\nthree\rfour\r\n"


@pytest.mark.parametrize("raw", [b"", b"\r\n\r\n", b"no field", b" From: a@b.test\r\n", b"A: b\r\n" * 5000])
def test_no_header_is_refused(raw: bytes) -> None:
    with pytest.raises(Unproven):
        author_of(read_strictly(raw))
