# ruff: noqa: E501
"""``winmail.dat``: its text and files are read, and nothing it claims is believed."""

from __future__ import annotations

import os
import random
import struct
import time

import pytest

from gateway.email import tnef
from gateway.email.limits import Budget
from gateway.email.parse import parse


def attribute(level: int, identifier: int, data: bytes, length: int | None = None) -> bytes:
    return struct.pack("<BHHI", level, identifier, 6, len(data) if length is None else length) + data + b"\0\0"


def prop(kind: int, identifier: int, value: bytes) -> bytes:
    return struct.pack("<HHII", kind, identifier, 1, len(value)) + value + b"\0" * (-len(value) % 4)


def properties(*items: bytes) -> bytes:
    return struct.pack("<I", len(items)) + b"".join(items)


def container(*attributes: bytes) -> bytes:
    return struct.pack("<IH", 0x223E9F78, 1) + b"".join(attributes)


def file(name: bytes, content: bytes, long_name: str = "") -> bytes:
    out = attribute(2, 0x9002, b"\0" * 14) + attribute(2, 0x8010, name + b"\0") + attribute(2, 0x800F, content)
    if long_name:
        out += attribute(2, 0x9005, properties(prop(31, 0x3707, long_name.encode("utf-16-le") + b"\0\0")))
    return out


def mail(data: bytes, text: str = "") -> bytes:
    import base64

    body = base64.encodebytes(data).decode()
    return (
        "From: ann@example.org\r\nSubject: files\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
        f"--b\r\nContent-Type: text/plain\r\n\r\n{text}\r\n--b\r\nContent-Type: application/ms-tnef; name=winmail.dat\r\n"
        f"Content-Transfer-Encoding: base64\r\n\r\n{body}\r\n--b--\r\n"
    ).encode()


def test_its_files_are_the_mails_files() -> None:
    found = parse(mail(container(file(b"REPORT~1.TXT", b"one", "Bericht für März.txt"), file(b"b.bin", b"two")), "see"))
    assert [(item.name, item.content) for item in found.attachments] == [
        ("Bericht für März.txt", b"one"),
        ("b.bin", b"two"),
    ]
    assert found.reply_text == "see"


def test_names_from_it_are_made_safe() -> None:
    found = parse(mail(container(file(b"..\\..\\evil.exe", b"x"), file(b"x", b"y", "../../etc/passwd"))))
    assert [item.name for item in found.attachments] == ["evil.exe", "passwd"]


@pytest.mark.parametrize(
    "body",
    [
        attribute(1, 0x800C, "Grüße".encode("cp1252") + b"\0"),
        attribute(1, 0x9003, properties(prop(31, 0x1000, "Grüße".encode("utf-16-le") + b"\0\0"))),
        attribute(1, 0x9003, properties(prop(258, 0x1013, b"<html><body>Gr&uuml;&szlig;e</body></html>"))),
        attribute(1, 0x9003, properties(struct.pack("<HHi", 3, 0x0E07, 1), prop(30, 0x1000, b"Gr\xfc\xdfe\0"))),
    ],
    ids=["attribute", "unicode", "html", "after a number"],
)
def test_its_text_is_read_where_the_mail_has_none(body: bytes) -> None:
    assert parse(mail(container(body))).reply_text == "Grüße"
    assert parse(mail(container(body), "words of the mail")).reply_text == "words of the mail"


def test_packed_rtf_is_read() -> None:
    """The example of MS-OXRTFCP, 4.1.1: {\\rtf1\\ansi\\ansicpg1252\\pard hello world}."""
    packed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    found = tnef.read(container(attribute(1, 0x9003, properties(prop(258, 0x1009, packed)))), Budget())
    assert found is not None
    assert found.plain == "hello world"


def test_one_without_files_stays_a_file() -> None:
    assert [item.name for item in parse(mail(container())).attachments] == ["winmail.dat"]
    assert [item.name for item in parse(mail(b"no container")).attachments] == ["winmail.dat"]


def quickly(data: bytes) -> tnef.Contents | None:
    began = time.process_time()
    found = tnef.read(data, Budget())
    assert time.process_time() - began < 2
    return found


def test_bombs_cost_little() -> None:
    quickly(container(*[attribute(2, 0x9002, b"")] * 200_000))
    quickly(container(attribute(2, 0x9002, b""), attribute(2, 0x800F, b"x", 0xFFFFFFFF)))
    quickly(container(attribute(1, 0x9003, struct.pack("<I", 0xFFFFFFFF) + b"\x1e\x10\0\x10" + b"\xff" * 100_000)))
    quickly(container(attribute(1, 0x9003, struct.pack("<IHHI", 1, 0x1003, 1, 0xFFFFFFFF))))
    # Each pair of bytes unpacks to seventeen.
    packed = struct.pack("<IIII", 0xFFFFFFFF, 0xFFFFFFFF, 0x75465A4C, 0) + (b"\xff" + b"\x00\x0f" * 8) * 400_000
    found = quickly(container(attribute(1, 0x9003, properties(prop(258, 0x1009, packed)))))
    assert found is not None
    assert len(found.plain) <= tnef.MAX_RTF_BYTES + 200


def test_a_container_of_many_megabytes_is_no_more_than_the_mail() -> None:
    budget = Budget(seconds=60.0)
    tnef.read(container(*[file(b"x", b"y" * 1_000_000)] * 60), budget)
    assert "decoded bytes" in budget.spent


@pytest.mark.parametrize("seed", range(30))
def test_nothing_makes_it_fail(seed: int) -> None:
    chance = random.Random(seed)
    whole = bytearray(
        container(
            attribute(1, 0x9003, properties(prop(31, 0x1000, b"a\0b\0"), prop(30, 0x8001, b"x"))), file(b"n", b"c", "l")
        )
    )
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            damaged[chance.randrange(6, len(damaged))] = chance.randrange(256)
        tnef.read(bytes(damaged[: chance.randrange(len(damaged))]), Budget())
    tnef.read(bytes(whole[:6]) + os.urandom(5000), Budget())


def test_a_logo_of_a_signature_is_not_announced() -> None:
    def image(size: int, disposition: str, identity: str) -> bytes:
        return (
            b"--b\r\nContent-Type: image/png; name=i.png\r\nContent-Disposition: " + disposition.encode() + b"\r\n"
            + identity.encode() + b"\r\n" + b"x" * size + b"\r\n"
        )  # fmt: skip

    head = b"From: a@b.test\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>hi</p>\r\n"
    raw = head + image(3000, "inline", "Content-ID: <a>\r\n") + image(90_000, "inline", "Content-ID: <b>\r\n")
    raw += image(3000, "attachment", "") + b"--b--\r\n"
    assert [item.announced for item in parse(raw).attachments] == [False, True, True]
