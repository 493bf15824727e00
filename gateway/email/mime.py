"""A mail as a tree of parts (RFC 2045, 2046), split by position: no copies, no recursion beyond the depth limit.

The standard library's parser is not used because it works line by line (25 MB of empty lines take it minutes) and
nests generators without a limit.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from gateway.email import limits
from gateway.email.headers import Headers, parameters, parse_headers, unbase64
from gateway.email.limits import Budget

_GUESS_BOUNDARY = re.compile(rb"(?:^|\n)--([^\s][^\r\n]{0,198})\r?\nContent-", re.IGNORECASE)
_AFTER_BOUNDARY = re.compile(rb"(--)?[ \t]{0,100}(?:\r?\n|\Z)")


@dataclass
class Part:
    """One entity: header, position of its body in `data`, and its parts if it is a multipart."""

    headers: Headers
    data: bytes
    start: int
    end: int
    content_type: str
    params: dict[str, str]
    disposition: str
    disposition_params: dict[str, str]
    children: list[Part] = field(default_factory=list)

    @property
    def maintype(self) -> str:
        return self.content_type.partition("/")[0]

    @property
    def charset(self) -> str | None:
        return self.params.get("charset")

    @property
    def filename(self) -> str:
        """What the message claims the part's name to be; empty if it claims none."""
        return self.disposition_params.get("filename") or self.params.get("name") or ""

    @property
    def attached(self) -> bool:
        return self.disposition == "attachment" or bool(self.filename)

    def walk(self) -> Iterator[Part]:
        yield self
        for child in self.children:
            yield from child.walk()

    def payload(self, budget: Budget) -> bytes:
        """The body with its transfer encoding undone (RFC 2045, 6); an unknown encoding leaves it as it is."""
        raw = self.data[self.start : self.end]
        budget.decoded_bytes -= len(raw)
        if budget.decoded_bytes < 0:
            budget.note("decoded bytes")
            return b""
        encoding = self.headers.text("content-transfer-encoding").lower().split(";")[0].strip()
        if encoding == "base64":
            return unbase64(raw)
        if encoding == "quoted-printable":
            return binascii.a2b_qp(raw)
        if encoding in {"x-uuencode", "uuencode", "x-uue", "uue"}:
            return _unuu(raw)
        return raw


def read(data: bytes, budget: Budget) -> Part:
    """The tree of a whole mail. Anything at all is a mail: what has no header is a text."""
    if len(data) > limits.MAX_BYTES:
        budget.note("bytes")
        data = data[: limits.MAX_BYTES]
    if b"\n" not in data[:65536] and b"\r" in data[:65536]:
        data = data.replace(b"\r", b"\n")
    return _entity(data, 0, len(data), "text/plain", limits.MAX_DEPTH, budget)


def _entity(data: bytes, start: int, end: int, default_type: str, depth: int, budget: Budget) -> Part:
    headers, body = parse_headers(data, start, end)
    content_type, params = parameters(headers.raw("content-type"))
    if not re.fullmatch(r"[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}", content_type):
        content_type = {"text": "text/plain", "html": "text/html"}.get(content_type, default_type)
    disposition, disposition_params = parameters(headers.raw("content-disposition"))
    part = Part(headers, data, min(body, end), end, content_type, params, disposition, disposition_params)
    if part.maintype != "multipart":
        return part
    if depth <= 0:
        budget.note("depth")
        return part
    inner = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
    for begin, stop in _pieces(part, budget):
        if budget.parts <= 0 or budget.late():
            if budget.parts <= 0:
                budget.note("parts")
            break
        budget.parts -= 1
        part.children.append(_entity(part.data, begin, stop, inner, depth - 1, budget))
    return part


def _pieces(part: Part, budget: Budget) -> list[tuple[int, int]]:
    """The positions of a multipart's parts; a missing last boundary ends with the body (RFC 2046, 5.1.2)."""
    boundary = part.params.get("boundary", "").encode("utf-8", "replace")
    if boundary:
        found = _split(part, boundary, budget)
        if found:
            return found
    encoding = part.headers.text("content-transfer-encoding").lower()
    if encoding in {"base64", "quoted-printable"} and boundary:
        decoded = part.payload(budget)
        if b"--" + boundary in decoded:
            part.data, part.start, part.end = decoded, 0, len(decoded)
            return _split(part, boundary, budget)
    guess = _GUESS_BOUNDARY.search(part.data, part.start, min(part.end, part.start + 65536))
    return _split(part, guess.group(1).rstrip(), budget) if guess else []


def _split(part: Part, boundary: bytes, budget: Budget) -> list[tuple[int, int]]:
    data, end = part.data, part.end
    mark = b"--" + boundary
    out: list[tuple[int, int]] = []
    begin: int | None = None
    at = data.find(mark, part.start, end)
    while at >= 0:
        after = at + len(mark)
        close = _AFTER_BOUNDARY.match(data, after, end) if at == part.start or data[at - 1] == 0x0A else None
        if close is None:
            budget.false_boundaries -= 1
            if budget.false_boundaries < 0:
                budget.note("boundaries")
                break
        else:
            if begin is not None:
                out.append((begin, max(begin, _before_newline(data, at, begin))))
            begin = close.end()
            after = max(after, begin - 1)
            if close.group(1):
                begin = None
                break
            if len(out) > budget.parts:
                break
        at = data.find(mark, after, end)
    if begin is not None:
        out.append((begin, end))
    return out


def _before_newline(data: bytes, at: int, begin: int) -> int:
    if at > begin and data[at - 1] == 0x0A:
        at -= 1
        if at > begin and data[at - 1] == 0x0D:
            at -= 1
    return at


def _unuu(raw: bytes) -> bytes:
    out = bytearray()
    position = bad = 0
    for _ in range(limits.MAX_UUENCODED_LINES):
        newline = raw.find(b"\n", position)
        line = raw[position : newline if newline >= 0 else len(raw)].rstrip(b"\r")
        position = newline + 1
        if line.startswith(b"begin ") or not line:
            if newline < 0:
                break
            continue
        if line == b"end":
            break
        try:
            out += binascii.a2b_uu(line)
        except binascii.Error:
            length = (((line[0] - 32) & 63) * 4 + 5) // 3  # trailing junk, as uu.py of the standard library had it
            with suppress(binascii.Error):
                out += binascii.a2b_uu(line[:length])
            bad += 1
        if newline < 0 or bad > 1000:
            break
    return bytes(out)
