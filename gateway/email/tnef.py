"""``winmail.dat``: the container (MS-OXTNEF) in which Outlook sends text and files to who cannot read it.

Read by position, with everything it claims checked against what is there: sizes, counts, and what text unpacks to.
Never raises; what cannot be read is left out.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.email.charsets import decode
from gateway.email.limits import Budget

SIGNATURE = 0x223E9F78
MAX_ATTRIBUTES = 10_000
MAX_FILES = 200
MAX_PROPERTIES = 5_000
MAX_VALUES = 1_000
MAX_RTF_BYTES = 1_000_000

_TITLE, _DATA, _RENDER, _ATTACHMENT = 0x8010, 0x800F, 0x9002, 0x9005
_BODY, _MESSAGE, _CODEPAGE = 0x800C, 0x9003, 0x9007
_PR_BODY, _PR_HTML, _PR_RTF, _PR_LONG_NAME, _PR_MIME, _PR_NAME = 0x1000, 0x1013, 0x1009, 0x3707, 0x370E, 0x3704
_FIXED = {2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 20: 8, 64: 8, 72: 16}
_VARIABLE = frozenset({13, 30, 31, 258})
_RTF_START = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript "
    b"\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


@dataclass
class File:
    """An attached file. ``name`` is what the container claims."""

    name: str = ""
    content_type: str = ""
    content: bytes = b""


@dataclass
class Contents:
    """What a container holds; empty texts where it holds none."""

    plain: str = ""
    html: str = ""
    files: list[File] = field(default_factory=list)


def read(data: bytes, budget: Budget) -> Contents | None:
    """The contents of a container; None for what is none."""
    if len(data) < 6 or struct.unpack_from("<I", data)[0] != SIGNATURE:
        return None
    found = Contents()
    codepage = "cp1252"
    for identifier, value in _attributes(data):
        if budget.late():
            break
        if identifier == _CODEPAGE and len(value) >= 4:
            codepage = f"cp{struct.unpack_from('<I', value)[0]}"
        elif identifier == _RENDER:
            if len(found.files) >= MAX_FILES:
                budget.note("parts")
                break
            found.files.append(File())
        elif identifier == _BODY and not found.plain:
            found.plain = _text(value, codepage, budget)
        elif identifier == _MESSAGE:
            _read_message(value, found, codepage, budget)
        elif found.files:
            _read_file(identifier, value, found.files[-1], codepage, budget)
    found.files = [file for file in found.files if file.content]
    return found


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 6
    for _ in range(MAX_ATTRIBUTES):
        if at + 9 > len(data):
            return
        identifier, length = struct.unpack_from("<HxxI", data, at + 1)
        begin = at + 9
        if length > len(data) - begin:
            return  # it claims more than there is
        yield identifier, data[begin : begin + length]
        at = begin + length + 2


def _read_message(value: bytes, found: Contents, codepage: str, budget: Budget) -> None:
    for identifier, kind, content in _properties(value):
        if identifier == _PR_BODY and not found.plain:
            found.plain = _text(content, "utf-16-le" if kind == 31 else codepage, budget)
        elif identifier == _PR_HTML and not found.html:
            found.html = _text(content, "utf-16-le" if kind == 31 else codepage, budget)
        elif identifier == _PR_RTF and not found.plain:
            found.plain = _rtf_text(_unpacked(content), codepage)


def _read_file(identifier: int, value: bytes, file: File, codepage: str, budget: Budget) -> None:
    if identifier == _TITLE and not file.name:
        file.name = _string(value, codepage)
    elif identifier == _DATA and not file.content:
        budget.decoded_bytes -= len(value)
        if budget.decoded_bytes < 0:
            budget.note("decoded bytes")
            return
        file.content = value
    elif identifier == _ATTACHMENT:
        for name, kind, content in _properties(value):
            text = _string(content, "utf-16-le" if kind == 31 else codepage) if kind in (30, 31) else ""
            if text and (name == _PR_LONG_NAME or (name == _PR_NAME and not file.name)):
                file.name = text
            elif name == _PR_MIME and text:
                file.content_type = text.lower()


def _properties(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(id, type, first value) of each property that has a length of its own."""
    if len(data) < 4:
        return
    at = 4
    try:
        for _ in range(min(struct.unpack_from("<I", data)[0], MAX_PROPERTIES)):
            kind, identifier = struct.unpack_from("<HH", data, at)
            at += 4
            if identifier >= 0x8000:
                (named,) = struct.unpack_from("<I", data, at + 16)
                at += 20
                at += 4 if named == 0 else 4 + _padded(struct.unpack_from("<I", data, at)[0])
            plain, several = kind & 0x0FFF, bool(kind & 0x1000)
            count = 1
            if several or plain in _VARIABLE:
                (count,) = struct.unpack_from("<I", data, at)
                at += 4
            if plain in _FIXED:
                at += _FIXED[plain] * min(count, MAX_VALUES)
                continue
            if plain not in _VARIABLE:
                return
            for number in range(min(count, MAX_VALUES)):
                (length,) = struct.unpack_from("<I", data, at)
                at += 4
                if length > len(data) - at:
                    return
                if number == 0:
                    yield identifier, plain, data[at : at + length]
                at += _padded(length)
    except struct.error:
        return  # it ends in the middle of a property


def _padded(length: int) -> int:
    return length + (-length % 4)


def _string(value: bytes, codepage: str) -> str:
    return decode(value[:2000], codepage).split("\0")[0].split("�")[0] if value else ""


def _text(value: bytes, codepage: str, budget: Budget) -> str:
    if len(value) > budget.text_bytes:
        budget.note("text")
        value = value[: budget.text_bytes]
    budget.text_bytes -= len(value)
    end = b"\0\0" if codepage == "utf-16-le" else b"\0"
    return decode(value.removesuffix(end), codepage)


def _unpacked(data: bytes) -> bytes:
    """RTF as MS-OXRTFCP packs it; at most MAX_RTF_BYTES of it, whatever sizes are claimed."""
    if len(data) < 16:
        return b""
    _, size, kind, _ = struct.unpack_from("<IIII", data)
    if kind == 0x414C454D:
        return data[16 : 16 + min(size, MAX_RTF_BYTES)]
    if kind != 0x75465A4C:
        return b""
    window = bytearray(_RTF_START.ljust(4096, b"\0"))
    out, write, at = bytearray(), len(_RTF_START), 16
    while at < len(data) and len(out) < MAX_RTF_BYTES:
        control, at = data[at], at + 1
        for bit in range(8):
            if at >= len(data):
                break
            if control >> bit & 1:
                if at + 1 >= len(data):
                    return bytes(out)
                token = data[at] << 8 | data[at + 1]
                at += 2
                offset, length = token >> 4, (token & 15) + 2
                if offset == write:
                    return bytes(out)
                for step in range(length):
                    byte = window[(offset + step) % 4096]
                    out.append(byte)
                    window[write] = byte
                    write = (write + 1) % 4096
            else:
                out.append(data[at])
                window[write] = data[at]
                write = (write + 1) % 4096
                at += 1
    return bytes(out)


_RTF = re.compile(rb"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-z])|([{}])|([^\\{}\r\n]+)|[\r\n\\]")
_NO_TEXT = frozenset(
    {b"fonttbl", b"colortbl", b"stylesheet", b"info", b"pict", b"object", b"generator", b"htmltag", b"listtable"}
)


def _rtf_text(rtf: bytes, codepage: str) -> str:
    """The words of RTF: groups of tables, pictures and embedded HTML tags left out."""
    out: list[str] = []
    hidden: list[bool] = [False]
    skip = 0
    for found in _RTF.finditer(rtf[:MAX_RTF_BYTES]):
        word, number, code, symbol, brace, text = found.groups()
        if brace == b"{":
            hidden.append(hidden[-1])
        elif brace == b"}":
            if len(hidden) > 1:
                hidden.pop()
        elif symbol == b"*" or word in _NO_TEXT:
            hidden[-1] = True
        elif hidden[-1]:
            continue
        elif word in (b"par", b"line"):
            out.append("\n")
        elif word == b"tab":
            out.append("\t")
        elif word == b"u" and number:
            out.append(chr(int(number) % 65536))
            skip = 1
        elif code:
            if not skip:
                out.append(decode(bytes([int(code, 16)]), codepage))
            skip = 0
        elif symbol in (b"\\", b"{", b"}"):
            out.append(symbol.decode())
        elif text:
            words = text.decode("latin-1")
            out.append(words[skip:])
            skip = 0
    return "".join(out).encode("utf-8", "replace").decode("utf-8").strip()
