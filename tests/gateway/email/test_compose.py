"""An answer as a mail: in its thread, marked automatic, the same at every try."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest

from gateway.email.compose import ComposedMail, File, Thread, compose, message_id, reference_chain, reply_subject
from gateway.email.parse import parse

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def composed(**changes: object) -> ComposedMail:
    given: dict[str, object] = {
        "key": "turn-1:0",
        "own_address": "porter@example.org",
        "own_name": "Night Porter",
        "to": ["ann@example.com"],
        "thread": Thread("Hello", "<c@example.com>", None, ("<a@example.com>", "<b@example.com>")),
        "text": "Hi *there*",
        "html": "<p>Hi <b>there</b></p>",
        "now": NOW,
    }
    return compose(**{**given, **changes})  # type: ignore[arg-type]


def read(mail: ComposedMail) -> EmailMessage:
    message = message_from_bytes(mail.data, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def test_an_answer_stands_in_its_thread_and_says_that_a_machine_wrote_it() -> None:
    message = read(composed())
    assert message["Subject"] == "Re: Hello"
    assert message["In-Reply-To"] == "<c@example.com>"
    assert message["References"].split() == ["<a@example.com>", "<b@example.com>", "<c@example.com>"]
    assert message["Auto-Submitted"] == "auto-replied"
    assert message["From"] == "Night Porter <porter@example.org>"
    assert message["Date"].datetime == NOW
    assert [part.get_content_type() for part in message.walk()] == ["multipart/alternative", "text/plain", "text/html"]


def test_the_id_depends_on_the_key_alone() -> None:
    assert composed().message_id == composed(text="changed", now=datetime(2027, 1, 1, tzinfo=UTC)).message_id
    assert composed().message_id != composed(key="turn-1:1").message_id
    assert message_id("k", "bücher.example").endswith("@xn--bcher-kva.example>")


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("Hello", "Re: Hello"),
        ("RE: Re: AW: Hello", "Re: Hello"),
        ("SV: VS: Fwd: x", "Re: Fwd: x"),
        ("回复：你好", "Re: 你好"),
        ("Re[2]: x", "Re: x"),
        ("Result: fine", "Re: Result: fine"),
        ("", "Re: (no subject)"),
        ("a\r\nBcc: x@example.com", "Re: a Bcc: x@example.com"),
    ],
)
def test_a_subject_keeps_exactly_one_re(subject: str, expected: str) -> None:
    assert reply_subject(subject) == expected
    assert read(composed(thread=Thread(subject)))["Subject"] == expected


def test_a_long_thread_keeps_its_first_and_its_newest_ids() -> None:
    ids = [f"<{number}@example.com>" for number in range(100)]
    chain = reference_chain(Thread("x", "<last@example.com>", None, ids))
    assert len(chain) == 20
    assert (chain[0], chain[-1]) == ("<0@example.com>", "<last@example.com>")


def test_without_references_the_parents_parent_is_named() -> None:
    assert reference_chain(Thread("x", "<b@y>", "<a@y>")) == ("<a@y>", "<b@y>")
    assert reference_chain(Thread("x")) == ()


@pytest.mark.parametrize("text", ["x" * 5000, "ü" * 5000, "From here\n.\n..\n", "line\n" * 1000, "\ud800\x00"])
def test_every_line_fits_and_the_text_survives(text: str) -> None:
    mail = composed(text=text, html="")
    assert max(map(len, mail.data.split(b"\r\n"))) <= 998
    assert b"\n" not in mail.data.replace(b"\r\n", b"")
    assert mail.data.isascii()
    back = parse(mail.data).reply_text if "\n" not in text else read(mail).get_content().replace("\r\n", "\n")
    assert back.strip() == text.replace("\ud800", "�").replace("\x00", "�").strip()


def test_files_travel_under_safe_names() -> None:
    mail = composed(files=[File("../../etc/passwd", "text/plain", b"x\n"), File("Bücher.pdf", "nonsense", b"\x00\xff")])
    found = parse(mail.data).attachments
    assert [item.name for item in found] == ["passwd", "Bücher.pdf"]
    assert [item.content_type for item in found] == ["text/plain", "application/octet-stream"]
    assert found[1].content == b"\x00\xff"


def test_our_own_answers_are_recognised_as_automatic() -> None:
    assert parse(composed().data).kind == "auto"
