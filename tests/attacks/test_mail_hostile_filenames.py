"""File names that want out of their folder, hide what they are, or are no names at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.email.filenames import MAX_NAME_BYTES, safe_name
from gateway.email.parse import parse


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("/etc/shadow", "shadow"),
        ("php://foo", "foo"),
        ("C:\\x\\y.txt", "y.txt"),
        (".bashrc", "bashrc"),
        ("..", "attachment-1.pdf"),
        ("", "attachment-1.pdf"),
        ("\x00\x01", "attachment-1.pdf"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("a\r\nb.txt", "ab.txt"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("a:stream.txt", "a_stream.txt"),
        ("-rf", "rf"),
        ("x.txt. .", "x.txt"),
        ("Bücher 日本.pdf", "Bücher 日本.pdf"),
    ],
)
def test_a_name_is_made_plain(claimed: str, expected: str) -> None:
    assert safe_name(claimed, "application/pdf", 1) == expected


def test_a_long_name_keeps_its_extension() -> None:
    name = safe_name("ä" * 500 + ".pdf", "application/pdf", 1)
    assert name.endswith(".pdf")
    assert len(name.encode()) <= MAX_NAME_BYTES


@given(st.text())
def test_every_name_is_one_visible_component(claimed: str) -> None:
    name = safe_name(claimed, "application/x-unknown", 7)
    assert name
    assert name not in {".", ".."}
    assert not set(name) & set("/\\\x00\n\r:")
    assert not name.startswith((".", "-"))
    assert len(name.encode()) <= MAX_NAME_BYTES


def test_two_files_of_one_name_do_not_replace_each_other() -> None:
    part = b'--b\r\nContent-Disposition: attachment; filename="%s"\r\n\r\n%s\r\n'
    mail = parse(
        b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
        + part % (b"a.txt", b"1")
        + part % (b"x/A.TXT", b"2")
        + b"--b--"
    )
    assert [item.name for item in mail.attachments] == ["a.txt", "A-2.TXT"]
    assert [item.content for item in mail.attachments] == [b"1", b"2"]
