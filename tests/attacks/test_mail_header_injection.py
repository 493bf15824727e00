"""Line breaks in whatever goes into an outgoing mail: no field, no recipient and no body can be added."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.email.compose import File, Thread, UnusableAddress, compose
from gateway.email.parse import parse

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BREAKS = ["\r\n", "\n", "\r", "\u2028", "\x85", "\x0b", "\r\n\r\n", "=?utf-8?q?=0d=0a?="]
FIELDS = {
    "message-id", "date", "from", "to", "reply-to", "subject", "in-reply-to", "references", "auto-submitted",
    "x-auto-response-suppress", "mime-version", "content-type", "content-transfer-encoding",
}  # fmt: skip


@pytest.mark.parametrize("end", BREAKS)
def test_no_field_can_be_added(end: str) -> None:
    evil = f"x{end}Bcc: victim@example.com"
    mail = compose(
        key=evil,
        own_address="porter@example.org",
        own_name=evil,
        to=["ann@example.com"],
        to_name=evil,
        thread=Thread(evil, f"<a{end}Bcc: victim@example.com>", evil, [f"<b@c>{end}Bcc: victim@example.com"]),
        text="body",
        now=NOW,
        files=[File(evil, f"text/plain{end}Bcc: victim@example.com", b"x")],
    )
    message = message_from_bytes(mail.data, policy=policy.compat32)
    assert {name.lower() for name in message} <= FIELDS
    assert mail.recipients == ("ann@example.com",)
    assert len(message.get_all("subject", [])) == 1
    assert not any(line.lower().startswith(b"bcc:") for line in mail.data.split(b"\r\n"))


@pytest.mark.parametrize("end", BREAKS[:-1])
@pytest.mark.parametrize("field", ["to", "own_address"])
def test_an_address_with_a_break_is_refused(end: str, field: str) -> None:
    given_fields: dict[str, object] = {"own_address": "porter@example.org", "to": ["ann@example.com"]}
    evil = f"a{end}RCPT TO:<victim@example.com>@example.com"
    given_fields[field] = [evil] if field == "to" else evil
    with pytest.raises(UnusableAddress):
        compose(key="k", thread=Thread("x"), text="x", now=NOW, **given_fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "address", ["a@b>\r\nDATA", "a b@c", "<a@b>", "a@b@c", "@", "a@", "a@b,c@d", '"a"@b', "a@b\x00"]
)
def test_an_odd_address_is_refused(address: str) -> None:
    with pytest.raises(UnusableAddress):
        compose(key="k", own_address="porter@example.org", to=[address], thread=Thread("x"), text="x", now=NOW)


@settings(max_examples=300)
@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_whatever_is_written_stays_in_its_place(subject: str, name: str, text: str) -> None:
    mail = compose(
        key="k",
        own_address="porter@example.org",
        own_name=name,
        to=["ann@example.com"],
        thread=Thread(subject),
        text=text,
        now=NOW,
    )
    head, _, _ = mail.data.partition(b"\r\n\r\n")
    names = [line.split(b":")[0].decode().lower() for line in head.split(b"\r\n") if line[:1] not in b" \t"]
    assert len(names) == len(set(names))
    assert set(names) <= FIELDS
    assert all(len(line) <= 998 for line in mail.data.split(b"\r\n"))
    assert b"\n" not in mail.data.replace(b"\r\n", b"")
    assert parse(mail.data).from_addresses == ("porter@example.org",)


def test_a_break_inside_an_encoded_word_stays_one_line_when_read() -> None:
    mail = parse(
        b"Subject: =?utf-8?q?a=0D=0ABcc:_x=40example.com?=\r\nFrom: =?utf-8?q?x=0A?= <a@example.com>\r\n\r\nhi"
    )
    assert mail.subject == "a Bcc: x@example.com"
    assert "\n" not in mail.from_name


@pytest.mark.parametrize(
    ("field", "addresses"),
    [
        (b'"ann@example.org" <evil@example.com>', ("evil@example.com",)),
        (b"ann@example.org <evil@example.com>", ("evil@example.com",)),
        (b"<ann@example.org> <evil@example.com>", ("ann@example.org", "evil@example.com")),
        (b"(ann@example.org) evil@example.com", ("evil@example.com",)),
        (b"=?utf-8?q?ann=40example.org_=3Cann=40example.org=3E?= <evil@example.com>", ("evil@example.com",)),
        (b"evil@example.com\r\nFrom: ann@example.org", ("evil@example.com", "ann@example.org")),
    ],
)
def test_an_ambiguous_sender_shows_as_such(field: bytes, addresses: tuple[str, ...]) -> None:
    assert parse(b"From: " + field + b"\r\n\r\nhi").from_addresses == addresses
