"""Bytes to text, whatever the charset label says: always an answer, never an error.

Labels are read as browsers read them (WHATWG Encoding): a wrong or unknown one degrades to U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

# What senders write on the label, and the superset they mean by it.
_MEANT = {
    "us-ascii": "cp1252", "ascii": "cp1252", "ansi_x3.4-1968": "cp1252", "646": "cp1252",
    "iso-8859-1": "cp1252", "iso8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "8859-1": "cp1252",
    "iso-8859-9": "cp1254", "iso8859-9": "cp1254", "iso-8859-8-i": "iso8859-8", "iso-8859-8-e": "iso8859-8",
    "iso-8859-11": "cp874", "tis-620": "cp874", "windows-874": "cp874",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "x-sjis": "cp932", "ms_kanji": "cp932",
    "windows-31j": "cp932", "x-ms-cp932": "cp932",
    "gb2312": "gb18030", "gbk": "gb18030", "x-gbk": "gb18030", "gb_2312-80": "gb18030", "cp936": "gb18030",
    "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "ksc5601": "cp949", "ks_c_5601": "cp949", "korean": "cp949",
    "big5": "cp950", "big5-hkscs": "big5hkscs", "x-x-big5": "cp950",
    "iso-2022-jp": "iso2022_jp_ext", "csiso2022jp": "iso2022_jp_ext", "unicode-1-1-utf-7": "utf-7",
    "utf8": "utf-8", "utf-8mb4": "utf-8", "unicode": "utf-8", "x-mac-cyrillic": "mac-cyrillic",
    "macintosh": "mac-roman",    "x-mac-roman": "mac-roman", "koi8-ru": "koi8-u", "cp-850": "cp850", "ansi": "cp1252",
}  # fmt: skip

# Python codecs that are no charsets of mail; some cost far more than linear time.
_REFUSED = frozenset(
    {"punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem", "palmos", "utf-8-sig"}
)

_MULTIBYTE = frozenset(
    {"cp932", "gb18030", "hz", "cp949", "johab", "cp950", "big5hkscs", "euc_jp", "euc-jp", "euc_jis_2004"}
    | {"iso2022_jp", "iso2022_jp_ext", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_3", "iso2022_kr", "utf-7"}
    | {"utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8"}
)

_C1 = {code: bytes([code]).decode("cp1252", "replace") for code in range(0x80, 0xA0)}
_SURROGATES = re.compile("[\ud800-\udfff]+")
_META = re.compile(rb"<meta[^>]{0,200}?charset\s{0,5}=\s{0,5}[\"']?([A-Za-z0-9_.:+-]{1,40})", re.IGNORECASE)


def codec_of(label: str | None) -> str | None:
    """The Python codec that a charset label means; None if there is no such charset."""
    if not label:
        return None
    name = label.strip().strip("\"'").lower()[:60].split("*")[0].replace(" ", "")
    name = _MEANT.get(name, name)
    if not name or not name.isascii():
        return None
    try:
        found = codecs.lookup(name)
        "".encode(found.name)  # refuses byte-to-byte codecs such as zlib
    except (LookupError, ValueError, UnicodeError):
        return None
    return None if found.name.replace("_", "-") in _REFUSED else found.name


def storable(text: str) -> str:
    """`text` without what SQLite and PostgreSQL refuse: NUL and lone surrogates become U+FFFD."""
    return _SURROGATES.sub(lambda found: "�" * len(found.group(0)), text.replace("\x00", "�"))


def _tidy(text: str) -> str:
    if any("\x80" <= c <= "\x9f" for c in set(text)):
        text = text.translate(_C1)  # nobody types C1 controls: they are cp1252 in disguise
    return storable(text.removeprefix("\ufeff"))


def decode(raw: bytes, label: str | None = None, *, also: Sequence[str | None] = ()) -> str:
    """`raw` as text: what is valid UTF-8 is UTF-8 unless a multibyte label decodes it too; then the label; then `also`.

    A single-byte charset decodes anything, so valid multibyte UTF-8 outweighs it (a run of such bytes
    hardly occurs by chance).
    """
    codec = codec_of(label)
    if raw.isascii() and (codec is None or codec not in _MULTIBYTE):
        return _tidy(raw.decode("ascii"))
    if codec in _MULTIBYTE:
        try:
            return _tidy(raw.decode(codec))
        except (UnicodeDecodeError, ValueError):
            pass
    try:
        return _tidy(raw.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    if codec is None:
        codec = next((found for found in map(codec_of, also) if found), None)
    if codec is None:
        codec = "utf-8" if _mostly_utf8(raw) else "cp1252"
    try:
        return _tidy(raw.decode(codec, "replace"))
    except (UnicodeDecodeError, ValueError, LookupError):
        return _tidy(raw.decode("utf-8", "replace"))


def _mostly_utf8(raw: bytes) -> bool:
    """Whether damaged bytes look like UTF-8: more sequences than stray bytes, judged on the first 64 KiB."""
    head = raw[: 64 * 1024]
    text = head.decode("utf-8", "replace")
    return sum(c > "\x7f" and c != "�" for c in text) > text.count("�")


def html_label(raw: bytes, label: str | None) -> str | None:
    """The charset of an HTML part: the MIME label, or else what its own <meta> claims."""
    if codec_of(label):
        return label
    found = _META.search(raw[:4096])
    return found.group(1).decode("ascii") if found else label
