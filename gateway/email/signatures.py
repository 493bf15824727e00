"""What is below or above the sender's words: signatures, device lines, legal footers, list footers, banners.

A sign-off ("Regards, Ann") is the sender's own and stays. Nothing is stripped that would leave no words at all,
except a signature after its proper delimiter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.email import languages
from gateway.email.limits import MAX_LINE_CHARS
from gateway.email.quotes import is_rule

MAX_UNMARKED_SIGNATURE_LINES = 40
"""How long a signature may be whose delimiter lacks its blank (`--` instead of `-- `, RFC 3676 4.3)."""


def _any(words: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(w if "\\" in w else re.escape(w) for w in words), re.IGNORECASE)


_DISCLAIMER = _any(languages.DISCLAIMER)
_BANNER = _any(languages.BANNER)
_SENT_FROM = re.compile(
    rf"[\W_]{{0,4}}(?:{'|'.join(re.escape(w) for w in sorted(languages.SENT_FROM, key=len, reverse=True))})", re.IGNORECASE
)
_SENT_SUFFIX = re.compile(r"(?:から送信|gönderildi|에서 보냄|gesendet|傳送|发送|发送的|送信)[.。!)]{0,2}$")
_DEVICE = re.compile(
    r"iphone|ipad|ipod|ios|android|outlook|samsung|galaxy|blackberry|huawei|xiaomi|pixel|nokia|windows|mobil|móvil|phone|telefon|téléphone|"
    r"smartphone|tablet|yahoo|gmail|proton|mail\b|app\b|k-9|typeapp|aquamail|bluemail|spark|thunderbird|device|gerät|handy|"
    r"appareil|dispositiv|messaging|machine|mac\b|"
    r"手机|手機|携帯|스마트폰|телефон|\bi[A-Z]\w+",
    re.IGNORECASE,
)
_CONTACT = re.compile(
    r"@|https?://|www\.|\(?\+?\(?\d[\d\s()./-]{7,20}\d|(?:tel|phone|mob|mobile|fax|direct|cell|office|address)[\w.]{0,6}\s?[:.]",
    re.IGNORECASE,
)
_LIST_FOOTER = re.compile(
    r"mailing list|mailman/listinfo|unsubscribe|google groups|listserv|to view this discussion|you received this message because|"
    r"you are receiving this|to stop receiving|reply to this email directly|view it on github|manage your subscription",
    re.IGNORECASE,
)
_DELIMITERS = frozenset({"--", "—", "––", "––", "- -", "-- -", "--\u200b"})


def _fences(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it stands in a ``` block."""
    inside, out = False, []
    for line in lines:
        fence = line.lstrip().startswith("```")
        out.append(inside or fence)
        inside ^= fence
    return out if not inside else [False] * len(lines)


def strip(lines: list[str]) -> list[str]:
    """`lines` of the sender's own text without what stands below them."""
    fenced = _fences(lines)
    lines = _below_delimiter(lines, fenced)
    for _ in range(6):
        before = len(lines)
        lines = _trimmed(_without_device_line(_without_footer(_trimmed(lines))))
        if len(lines) == before:
            break
    return lines


def _trimmed(lines: list[str]) -> list[str]:
    """Without blank lines and rules at the end, nor blank ones at the beginning; a rule that is all there is stays."""
    end = len(lines)
    while end and (not lines[end - 1].strip("  \t\ufeff\u200b") or (is_rule(lines[end - 1]) and not lines[end - 1].strip("*#~`"))):
        end -= 1
    while end and (_blank(lines[end - 1]) or (is_rule(lines[end - 1]) and _above_has_words(lines, end - 1))):
        end -= 1
    begin = 0
    while begin < end and _blank(lines[begin]):
        begin += 1
    return lines[begin:end]


def _blank(line: str) -> bool:
    return not line.strip("  \t\ufeff\u200b\u1427")


def _above_has_words(lines: list[str], index: int) -> bool:
    """A rule directly below a line of words is a markdown heading or a table's; below a blank line it is furniture."""
    return index > 0 and (_blank(lines[index - 1]) or is_rule(lines[index - 1]) or not any(map(str.strip, lines[:index])))


def _below_delimiter(lines: list[str], fenced: list[bool]) -> list[str]:
    for index, line in enumerate(lines):
        if fenced[index]:
            continue
        bare = line.strip("  \t\ufeff\u200b\r")
        if bare not in _DELIMITERS:
            continue
        tail = [item for item in lines[index + 1 :] if item.strip()]
        if line.startswith("-- ") or len(tail) <= MAX_UNMARKED_SIGNATURE_LINES:
            return lines[:index]
    return lines


def _without_footer(lines: list[str]) -> list[str]:
    """Cut at the first rule or paragraph from which everything down to the end is furniture."""
    words = False
    previous_blank = False
    for index, line in enumerate(lines):
        stripped = line.strip()
        if not stripped:
            previous_blank = True
            continue
        starts_block = previous_blank or is_rule(stripped)
        if not words and is_rule(stripped) and _is_list_footer(lines[index:]):
            return lines[:index]
        if words and starts_block and len(stripped) <= MAX_LINE_CHARS * 2 and _is_footer(lines, index):
            return lines[:index]
        previous_blank = False
        words = words or not is_rule(stripped)
    return lines


def _is_list_footer(lines: list[str]) -> bool:
    return bool(_LIST_FOOTER.search("\n".join(line for line in lines[1:4] if len(line) < 300)))


def _is_footer(lines: list[str], index: int) -> bool:
    tail = [line.strip() for line in lines[index:] if line.strip()][:60]
    ruled = is_rule(tail[0])
    text = "\n".join(tail[1:] if ruled else tail)[:8000]
    if ruled:
        near = "\n".join(tail[1:4])
        if _LIST_FOOTER.search(near) or _SENT_FROM.match(near):
            return True
        underscores = tail[0].startswith("___")
        return underscores and bool(_DISCLAIMER.search(text) or (len(tail) <= 12 and _CONTACT.search(text)))
    if not _DISCLAIMER.search(text[:600]):
        return False
    # A confidentiality notice speaks at length of the message itself; a person's own sentence about one is short.
    return len(_DISCLAIMER.findall(text)) >= 2 and len(text) >= 120


def _without_device_line(lines: list[str]) -> list[str]:
    """Without a last paragraph such as `Sent from my iPhone`, of at most two lines."""
    begin = len(lines)
    while begin and not _blank(lines[begin - 1]) and len(lines) - begin < 3:
        begin -= 1
    for start in range(max(begin, len(lines) - 2), len(lines)):
        first = lines[start].strip()
        if len(first) > 200 or not any(not _blank(item) for item in lines[:start]):
            continue
        text = " ".join(item.strip() for item in lines[start:])
        opens = _SENT_FROM.match(first) and not first.rstrip().endswith("?")
        if (opens or _SENT_SUFFIX.search(text)) and _DEVICE.search(text) and len(text) <= 220 and _short(text):
            return lines[:start]
    return lines


def _short(text: str) -> bool:
    """Few words once links are gone: a device line is no sentence."""
    return len(re.sub(r"<[^>]{0,200}>|\(https?[^)]{0,200}\)|https?://\S{0,200}", "", text).split()) <= 12


def without_banner(lines: list[str]) -> list[str]:
    """Without a gateway's warning on top ("This email originated from outside …"), if words follow it."""
    begin = 0
    while begin < len(lines) and _blank(lines[begin]):
        begin += 1
    end = begin
    while end < len(lines) and not _blank(lines[end]) and end - begin < 8:
        end += 1
    paragraph = " ".join(lines[begin:end])[:1500]
    rest = lines[end:]
    if end > begin and _BANNER.search(paragraph) and len(paragraph) < 900 and any(not _blank(item) for item in rest):
        while rest and (_blank(rest[0]) or is_rule(rest[0])):
            rest = rest[1:]
        return rest
    return lines
