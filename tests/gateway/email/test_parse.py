# ruff: noqa: E501
"""What a whole mail says, where the corpus has no example or a rule deserves one of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.email.describe import describe
from gateway.email.parse import parse
from gateway.email.parsed import ParsedMail
from gateway.email.policy import should_not_answer

OWN = "porter@example.org"


def html_mail(body: str, *, subject: str = "Re: x", answers: bool = True) -> ParsedMail:
    thread = "In-Reply-To: <a@b>\n" if answers else ""
    return parse(f"From: a@b.c\nSubject: {subject}\n{thread}Content-Type: text/html; charset=utf-8\n\n{body}".encode())


@pytest.mark.parametrize(
    "body",
    [
        '<div>Yes.</div><div class="gmail_quote"><div class="gmail_attr">On Tue, A &lt;a@b.c&gt; wrote:<br></div>'
        '<blockquote class="gmail_quote">old</blockquote></div>',
        '<div>Yes.</div><div id="appendonsend"></div><hr><div id="divRplyFwdMsg"><b>From:</b> A &lt;a@b.c&gt;<br>'
        "<b>Sent:</b> Monday<br><b>To:</b> B<br><b>Subject:</b> x</div><div>old</div>",
        "<div>Yes.<br><br>Sent from my iPhone</div><div><br>On 5 Mar 2024, at 09:12, A &lt;a@b.c&gt; wrote:<br><br></div>"
        '<blockquote type="cite"><div>old</div></blockquote>',
        '<div>Yes.</div><div class="yahoo_quoted"><div>On Tuesday, A &lt;a@b.c&gt; wrote:</div><div>old</div></div>',
        '<p>Yes.</p><div class="gmail_signature">Bob<br>CEO</div>',
        'Yes.<span style="display:none">preheader</span>',
    ],
    ids=["gmail", "outlook", "apple", "yahoo", "signature", "hidden"],
)
def test_html_alone_is_read_like_text(body: str) -> None:
    mail = html_mail(body)
    assert (mail.reply_text, mail.kind) == ("Yes.", "reply")


def test_a_mail_that_is_wrapped_in_a_quote_element_still_has_its_words() -> None:
    assert html_mail('<div class="gmail_quote">all in here</div>').reply_text == "all in here"


def test_a_forward_in_html_is_context() -> None:
    body = (
        '<p>Look</p><div class="gmail_quote"><div class="gmail_attr">---------- Forwarded message ---------<br>'
        "From: A &lt;a@b.c&gt;<br>Date: x<br>Subject: y<br></div>old text</div>"
    )
    mail = html_mail(body, subject="Fwd: y", answers=False)
    assert (mail.kind, mail.reply_text) == ("forward", "Look")
    assert "old text" in mail.context


def test_an_attached_mail_is_context() -> None:
    mail = parse(
        b"From: a@b.c\nSubject: see\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nWhat is this?\n"
        b"--b\nContent-Type: message/rfc822\n\nFrom: x@y.z\nSubject: inner\n\ninner words\n--b--\n"
    )
    assert mail.reply_text == "What is this?"
    assert "inner words" in mail.context
    assert [item.name for item in mail.attachments] == ["attachment-1.eml"]


def test_a_bounce_names_the_answer_that_failed() -> None:
    mail = parse(
        b"From: MAILER-DAEMON@mx.example.com\nSubject: Undelivered Mail\n"
        b"Content-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\n\nIt failed.\n"
        b"--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.com\n\n"
        b"Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 no such user\n\n"
        b"--b\nContent-Type: message/rfc822\n\nMessage-ID: <np.1@example.org>\nSubject: Re: x\n\nhi\n--b--\n"
    )
    assert mail.kind == "bounce"
    assert mail.failed_delivery is not None
    assert mail.failed_delivery.message_id == "<np.1@example.org>"
    assert mail.failed_delivery.recipients == ("ann@example.com",)
    assert (mail.failed_delivery.status, mail.failed_delivery.action) == ("5.1.1", "failed")
    assert mail.failed_delivery.diagnostic == "550 no such user"


def test_an_invitation_is_told_in_short() -> None:
    mail = parse(
        b"From: a@b.c\nContent-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\nMETHOD:REQUEST\nBEGIN:VEVENT\n"
        b"SUMMARY:Plan\\, then\n  do\nDTSTART;TZID=Europe/Berlin:20260512T100000\nORGANIZER:mailto:a@b.c\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    assert mail.kind == "calendar"
    assert mail.invitation is not None
    assert mail.invitation.summary == "Plan, then do"
    assert mail.invitation.starts == "20260512T100000 Europe/Berlin"


@pytest.mark.parametrize(
    ("head", "envelope", "word"),
    [
        (b"Auto-Submitted: auto-generated\n", None, "automatic"),
        (b"Subject: Automatic reply: away\nX-Auto-Response-Suppress: All\n", None, "automatic"),
        (b"Subject: Abwesenheitsnotiz: x\nX-Auto-Response-Suppress: OOF\n", None, "automatic"),
        (b"Precedence: bulk\n", None, "list"),
        (b"List-Id: <x.example.com>\n", None, "list"),
        (b"", "", "null sender"),
        (b"Return-Path: <>\n", None, "automatic"),
        (b"Reply-To: no-reply@example.com\n", None, "nobody reads"),
    ],
)
def test_machines_and_lists_are_never_answered(head: bytes, envelope: str | None, word: str) -> None:
    reason = should_not_answer(parse(b"From: ann@example.com\n" + head + b"\nhi"), envelope, OWN)
    assert reason is not None
    assert word in reason


@pytest.mark.parametrize(
    "sender", ["porter@example.org", "Porter+abc@EXAMPLE.org", "noreply@example.com", "MAILER-DAEMON@x.y"]
)
def test_ourselves_and_dead_ends_are_never_answered(sender: str) -> None:
    assert should_not_answer(parse(f"From: {sender}\n\nhi".encode()), sender, OWN)


def test_a_person_is_answered() -> None:
    assert (
        should_not_answer(parse(b"From: Ann <ann@example.com>\nAuto-Submitted: no\n\nhi"), "ann@example.com", OWN)
        is None
    )


@pytest.mark.parametrize(
    "subject", ["Read: this book", "Out of office next week", "Fuera de la oficina", "Accepted: your plan"]
)
def test_a_person_may_begin_a_subject_like_a_machine(subject: str) -> None:
    assert parse(f"From: ann@example.com\nSubject: {subject}\n\nhi".encode()).kind == "new"


def test_a_mail_told_twice_is_a_duplicate(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(b"From: ann@example.com\nMessage-ID: <1@x>\n\nhi")
    assert [item["action"] for item in describe([path, path])] == ["message", "duplicate"]


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 100, b"no header at all", b"\r\n\r\n", b"From:"])
def test_what_is_no_mail_is_still_read(data: bytes) -> None:
    assert parse(data).kind in {"new", "empty"}


def test_an_invitation_is_told_as_a_person_would() -> None:
    raw = (
        b"From: ann@example.org\r\nSubject: Lunch\r\nContent-Type: text/calendar; method=REQUEST\r\n\r\n"
        b"BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nSUMMARY:Lunch\\, together\r\n"
        b"DTSTART;TZID=Europe/Berlin:20240305T121500\r\nDTEND:20240305T120000Z\r\nLOCATION:Room 1\r\n"
        b"ORGANIZER;CN=Ann:mailto:ann@example.org\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
    assert parse(raw).context.split("\n") == [
        "An invitation: Lunch, together",
        "begins: 2024-03-05 12:15 Europe/Berlin",
        "ends: 2024-03-05 12:00 UTC",
        "where: Room 1",
        "organised by: ann@example.org",
    ]
