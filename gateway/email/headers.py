"""Header fields: unfolding, encoded words (RFC 2047), parameters (RFC 2231), addresses, message ids.

Written for mail as it comes, not as the RFCs have it; every function is linear in its input and never raises.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gateway.email import limits
from gateway.email.charsets import decode, storable

_WORD = re.compile(r"=\?([^?\s]{1,60})\?([BbQq])\?([^?]{0,4000})\?=")
_ID = re.compile(r"<([^<>\s]{1,900})>")
_BARE_ADDRESS = re.compile(r"[^\s<>,;:()\"\[\]]{1,200}@[^\s<>,;:()\"\[\]@]{1,250}")
_FIELD = re.compile(rb"([!-9;-~]{1,200})[ \t]*:")


@dataclass(frozen=True)
class Headers:
    """The fields of one header section, in order, names in lower case, values unfolded but not decoded."""

    fields: tuple[tuple[str, bytes], ...] = ()

    def raw(self, name: str) -> bytes:
        """The first value of a field; empty if there is none."""
        return next((value for key, value in self.fields if key == name), b"")

    def raws(self, name: str) -> list[bytes]:
        return [value for key, value in self.fields if key == name]

    def has(self, name: str) -> bool:
        return any(key == name for key, _ in self.fields)

    def text(self, name: str) -> str:
        """The first value as a person reads it: encoded words decoded, no line breaks or control characters."""
        return decode_words(decode(self.raw(name)))


def parse_headers(data: bytes, start: int, end: int) -> tuple[Headers, int]:
    """The header section at `start`, and where the body begins. A line that is no field begins the body."""
    fields: list[tuple[str, bytearray]] = []
    position = start
    stop = min(end, start + limits.MAX_HEADER_BYTES)
    while position < end:
        newline = data.find(b"\n", position, end)
        line_end = end if newline < 0 else newline + 1
        line = data[position : min(line_end, position + limits.MAX_FIELD_BYTES)].rstrip(b"\r\n")
        if not line.strip(b" \t"):
            return _headers(fields), line_end
        if position == start and line.startswith((b"From ", b">From ")):
            position = line_end  # mbox separator
            continue
        if line[:1] in b" \t" and fields:
            if len(fields[-1][1]) < limits.MAX_FIELD_BYTES:
                fields[-1][1].extend(b" " + line.strip(b" \t"))
        else:
            found = _FIELD.match(line)
            if not found:
                return _headers(fields), position
            fields.append((found.group(1).decode("ascii").lower(), bytearray(line[found.end() :].strip(b" \t"))))
        position = line_end
        if position > stop or len(fields) > limits.MAX_HEADER_FIELDS:
            blank = re.compile(rb"\n\r?\n").search(data, position - 1, end)
            return _headers(fields), blank.end() if blank else end
    return _headers(fields), end


def _headers(fields: list[tuple[str, bytearray]]) -> Headers:
    return Headers(tuple((name, bytes(value)) for name, value in fields))


def decode_words(text: str) -> str:
    """Encoded words of RFC 2047 decoded, also inside quotes; a character cut between two words is joined first."""
    if "=?" not in text:
        return _one_line(text)
    out: list[str] = []
    pending: tuple[str, bytes] | None = None
    position = 0
    for found in _WORD.finditer(text):
        between = text[position : found.start()]
        raw = _word_bytes(found.group(2), found.group(3))
        label = found.group(1).split("*")[0]
        if pending and not between.strip() and pending[0].lower() == label.lower():
            pending = (label, pending[1] + raw)
        else:
            if pending:
                out.append(decode(pending[1], pending[0]))
            if not pending or between.strip():
                out.append(between)
            pending = (label, raw)
        position = found.end()
    if pending:
        out.append(decode(pending[1], pending[0]))
    out.append(text[position:])
    return _one_line("".join(out))


def _word_bytes(encoding: str, payload: str) -> bytes:
    raw = payload.encode("utf-8", "replace")
    if encoding in "Qq":
        return binascii.a2b_qp(raw, header=True)
    return unbase64(raw)


def unbase64(raw: bytes) -> bytes:
    """Base64 as far as it goes: foreign characters skipped, missing padding made up, trailing junk dropped."""
    try:
        return base64.b64decode(raw)
    except (binascii.Error, ValueError):
        pass
    clean = re.sub(rb"[^A-Za-z0-9+/]", b"", raw)
    clean = clean[: len(clean) - (len(clean) % 4 == 1)]
    return base64.b64decode(clean + b"=" * (-len(clean) % 4))


def _one_line(text: str) -> str:
    """Header text holds no line break (RFC 5322, 2.2): a break smuggled in through an encoded word becomes a blank."""
    return storable(re.sub(r"[\x00-\x1f\x7f\u2028\u2029\x85]+", " ", text)).strip()


def parameters(raw: bytes) -> tuple[str, dict[str, str]]:
    """A structured value such as Content-Type: (`type/subtype` in lower case, parameters decoded by RFC 2231).

    Unquoted values may hold blanks and `=`, the first of doubled parameters counts.
    """
    pieces = list(_split_quoted(raw[:4096], ord(";")))
    value = decode(pieces[0]).strip().lower() if pieces else ""
    plain: dict[str, bytes] = {}
    extended: dict[str, dict[int, tuple[bytes, bool]]] = {}
    for piece in pieces[1:200]:
        key, equals, given = piece.partition(b"=")
        if not equals:
            continue
        name = key.strip().decode("ascii", "replace").lower()
        given = _unquote(given.strip())
        base, star, rest = name.partition("*")
        if not star:
            plain.setdefault(base, given)
            continue
        encoded = rest.endswith("*") or not rest
        number = rest.rstrip("*")
        index = int(number) if number.isascii() and number.isdigit() and len(number) < 4 else 0
        extended.setdefault(base, {}).setdefault(index, (given, encoded))
    out = {name: decode_words(decode(given)) for name, given in plain.items()}
    for name, parts in extended.items():
        out[name] = _extended(parts)
    return value, out


def _extended(parts: dict[int, tuple[bytes, bool]]) -> str:
    label: str | None = None
    joined = b""
    for index in sorted(parts):
        given, encoded = parts[index]
        if index == 0 and encoded and given.count(b"'") >= 2:
            charset, _, given = given.split(b"'", 2)
            label = charset.decode("ascii", "replace")
        joined += _unpercent(given) if encoded else given
    return decode_words(decode(joined, label))


def _unpercent(raw: bytes) -> bytes:
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found.group(1), 16)]), raw)


def _unquote(raw: bytes) -> bytes:
    if raw[:1] == b'"':
        raw = raw[1:-1] if raw[-1:] == b'"' and len(raw) > 1 else raw[1:]
        return re.sub(rb"\\(.)", rb"\1", raw)
    return raw


def _split_quoted(raw: bytes, separator: int) -> Iterator[bytes]:
    """Pieces between separators that stand outside double quotes."""
    begin, quoted, escaped = 0, False, False
    for index, byte in enumerate(raw):
        if escaped:
            escaped = False
        elif quoted and byte == 0x5C:
            escaped = True
        elif byte == 0x22:
            quoted = not quoted
        elif byte == separator and not quoted:
            yield raw[begin:index]
            begin = index + 1
    yield raw[begin:]


@dataclass(frozen=True)
class Mailbox:
    """One address with the name it came with. The name proves nothing."""

    name: str
    address: str


def mailboxes(raw: bytes, *, limit: int = 200) -> list[Mailbox]:
    """The mailboxes of an address field, also of a malformed one; quoted strings and comments hold no address."""
    text = decode(raw[: limits.MAX_FIELD_BYTES])
    out: list[Mailbox] = []
    for plain, quoted in _address_pieces(text):
        angle = plain.rfind("<")
        if angle >= 0:
            address = plain[angle + 1 :].partition(">")[0].strip()
            name = plain[:angle]
            if ":" in address and address.startswith("@"):
                address = address.rpartition(":")[2]  # source route, RFC 5322 4.4
        else:
            bare = _BARE_ADDRESS.search(plain)
            address = bare.group(0) if bare else plain.strip()
            name = plain.replace(address, " ") if bare else ""
            if not bare and (" " in address or not address):
                address = ""
        name = decode_words(" ".join([*quoted, name]) if quoted else name)
        if address and not address.startswith("=?"):
            out.append(Mailbox(" ".join(name.replace('"', " ").split()), storable(address)))
        if len(out) >= limit:
            break
    return out


def _address_pieces(text: str) -> Iterator[tuple[str, list[str]]]:
    """(text outside quotes and comments, quoted strings) of each mailbox; a piece also ends after `<…>`."""
    plain: list[str] = []
    quoted: list[str] = []
    word: list[str] = []
    in_quote = escaped = in_angle = False
    comment = 0
    for index, char in enumerate(text):
        if escaped:
            escaped = False
            if in_quote:
                word.append(char)
        elif char == "\\" and (in_quote or comment):
            escaped = True
        elif in_quote:
            if char == '"':
                in_quote = False
                if text[index + 1 : index + 2] == "@":
                    plain.append('"' + "".join(word) + '"')  # a quoted local part
                else:
                    quoted.append("".join(word))
                word = []
            else:
                word.append(char)
        elif char == "(" and not in_angle:
            comment += 1
        elif char == ")" and comment:
            comment -= 1
        elif comment:
            continue
        elif char == '"' and not in_angle:
            in_quote = True
        elif char in ",;" and not in_angle:
            yield "".join(plain), quoted
            plain, quoted = [], []
        elif char == ":" and not in_angle and "@" not in "".join(plain[-300:]):
            plain, quoted = [], []  # the name of a group
        else:
            in_angle = char == "<" or (in_angle and char != ">")
            plain.append(char)
            if char == ">":
                yield "".join(plain), quoted
                plain, quoted = [], []
    yield "".join(plain), quoted


def message_ids(raw: bytes, *, limit: int = 100) -> tuple[str, ...]:
    """The ids of Message-ID, In-Reply-To or References, with their angle brackets; the newest `limit` of them."""
    text = decode(raw)
    found = [f"<{name}>" for name in _ID.findall(text)]
    if not found:
        found = [f"<{word.strip('<>')}>" for word in text.split() if "@" in word and len(word) < 900][:1]
    seen = list(dict.fromkeys(storable(item) for item in found))
    return tuple(seen[-limit:])


def date(raw: bytes) -> datetime | None:
    """The Date field in UTC; None where it says no possible time."""
    try:
        found = parsedate_to_datetime(decode(raw[:200]))
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError, AttributeError):
        return None
