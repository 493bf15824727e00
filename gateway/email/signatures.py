"""What is below or above the sender's words: signatures, device lines, legal footers, list footers, banners.

A sign-off ("Regards, Ann") is the sender's own and stays. Nothing is stripped that would leave no words at all,
except a signature after its proper delimiter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.email import languages
from gateway.email.limits import MAX_LINE_CHARS
from gateway.email.quotes import is_blank, is_rule

MAX_FOOTER_LINES = 150
"""How far above the end a footer may begin."""
MAX_UNMARKED_SIGNATURE_LINES = 40
"""How long a signature may be whose delimiter lacks its blank (`--` instead of `-- `, RFC 3676 4.3)."""


def _count(words: Sequence[str], text: str) -> int:
    """How many of `words` stand in `text`, in any case."""
    folded = text.casefold()
    return sum(word in folded for word in words)


_DISCLAIMER = tuple(word.casefold() for word in languages.DISCLAIMER)
_BANNER = tuple(word.casefold() for word in languages.BANNER)
_SENT_FROM = re.compile(
    rf"[\W_]{{0,4}}(?:{'|'.join(re.escape(w) for w in sorted(languages.SENT_FROM, key=len, reverse=True))})",
    re.IGNORECASE,
)
_SENT_SUFFIX = re.compile(r"(?:から送信|gönderildi|에서 보냄|gesendet|傳送|发送|发送的|送信)[.。!)]{0,2}$")
_SENT_FROM_MY = re.compile(r"[\W_]{0,4}sent from my ", re.IGNORECASE)
_OUTLOOK_APP = re.compile(r"outlook.{0,25}\b(?:ios|android)\b|\b(?:ios|android)\b.{0,12}outlook", re.IGNORECASE)
"""The advertisement of that app, which says "Get it" in any language."""
_DEVICE = re.compile(
    r"iphone|ipad|ipod|ios|android|outlook|samsung|galaxy|blackberry|huawei|xiaomi|pixel|nokia|windows|mobil|móvil|phone|telefon|téléphone|"
    r"smartphone|tablet|yahoo|gmail|proton|mail\b|app\b|k-9|typeapp|aquamail|bluemail|spark|thunderbird|device|gerät|handy|"
    r"appareil|dispositiv|messaging|machine|mac\b|"
    r"手机|手機|携帯|스마트폰|телефон|\bi[A-Z]\w+",
    re.IGNORECASE,
)
_CONTACT = re.compile(
    r"@|https?://|www\.|\(?\+?\(?\d[\d\s()./-]{7,20}\d|"
    r"(?:tel|phone|mob|mobile|fax|direct|cell|office|address)[\w.]{0,6}\s?[:.]",
    re.IGNORECASE,
)
_LIST_FOOTER = re.compile(
    r"mailing list|mailman/listinfo|unsubscribe|google groups|listserv|to view this discussion|"
    r"you received this message because|"
    r"you are receiving this|to stop receiving|reply to this email directly|view it on github|manage your subscription",
    re.IGNORECASE,
)
_DELIMITERS = frozenset({"--", "—", "––", "- -", "-- -", "--\u200b"})


def fenced(lines: Sequence[str]) -> list[bool]:
    """For each line, whether it stands in a ``` block."""
    inside, out = False, []
    for line in lines:
        fence = line.lstrip().startswith("```")
        out.append(inside or fence)
        inside ^= fence
    return out if not inside else [False] * len(lines)


def strip(lines: list[str]) -> list[str]:
    """`lines` of the sender's own text without what stands below them."""
    lines = _below_delimiter(lines, fenced(lines))
    for _ in range(6):
        before = len(lines)
        lines = _trimmed(_without_device_line(_without_footer(_trimmed(lines))))
        if len(lines) == before:
            break
    return lines


def _trimmed(lines: list[str]) -> list[str]:
    """Without blank lines and rules at the end, nor blank ones at the beginning; a rule that is all there is stays."""
    end = len(lines)
    while end and (is_blank(lines[end - 1]) or (is_rule(lines[end - 1]) and _stands_alone(lines, end - 1))):
        end -= 1
    begin = 0
    while begin < end and is_blank(lines[begin]):
        begin += 1
    return lines[begin:end]


def _stands_alone(lines: list[str], index: int) -> bool:
    """A rule directly below a line of words is a markdown heading or a table's; below a blank line it is furniture."""
    return index > 0 and (is_blank(lines[index - 1]) or is_rule(lines[index - 1]))


def _below_delimiter(lines: list[str], in_fence: list[bool]) -> list[str]:
    for index, line in enumerate(lines):
        if in_fence[index]:
            continue
        bare = line.strip().strip("\ufeff")
        if bare not in _DELIMITERS:
            continue
        tail = lines[index + 1 : index + 1 + 4 * MAX_UNMARKED_SIGNATURE_LINES]
        short = (
            index + 1 + len(tail) >= len(lines) and sum(map(bool, map(str.strip, tail))) <= MAX_UNMARKED_SIGNATURE_LINES
        )
        if line.startswith("-- ") or short:
            return lines[:index]
    return lines


def _without_footer(lines: list[str]) -> list[str]:
    """Cut at the first rule or paragraph from which everything down to the end is furniture."""
    previous_blank = False
    first = max(0, len(lines) - MAX_FOOTER_LINES)
    words = any(not is_blank(line) for line in lines[:first])
    for index, line in enumerate(lines[first:], start=first):
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
    text = "\n".join(line[:1000] for line in (tail[1:] if ruled else tail))[:6000]
    if ruled:
        near = "\n".join(tail[1:4])
        if _LIST_FOOTER.search(near) or _SENT_FROM.match(near):
            return True
        underscores = tail[0].startswith(("___", "——", "––"))
        return underscores and bool(_count(_DISCLAIMER, text) or (len(tail) <= 12 and _CONTACT.search(text)))
    if not _count(_DISCLAIMER, _paragraph(lines, index)[:600]):
        return False
    # A confidentiality notice speaks at length of the message itself; a person's own sentence about one is short.
    return _count(_DISCLAIMER, text) >= 2 and _said_at_length(text)


def _paragraph(lines: list[str], index: int) -> str:
    end = index
    while end < len(lines) and not is_blank(lines[end]):
        end += 1
    return "\n".join(line[:1000] for line in lines[index : min(end, index + 12)])


def _said_at_length(text: str) -> bool:
    """Scripts that write a word as a sign or two say the same in a third of the room."""
    dense = sum("\u2e80" <= char <= "\ud7ff" for char in text)
    return len(text) + 2 * dense >= 120


def _without_device_line(lines: list[str]) -> list[str]:
    """Without a last paragraph such as `Sent from my iPhone`, of at most two lines."""
    begin = len(lines)
    while begin and not is_blank(lines[begin - 1]) and len(lines) - begin < 3:
        begin -= 1
    for start in range(max(begin, len(lines) - 2), len(lines)):
        first = lines[start].strip()
        if len(first) > 200 or all(map(is_blank, lines[:start])):
            continue
        text = " ".join(item.strip() for item in lines[start:])
        app = _OUTLOOK_APP.search(first) and len(re.sub(r"<[^>]{0,200}>", "", first).split()) <= 6
        opens = (_SENT_FROM.match(first) or app) and not first.rstrip().endswith("?")
        device = "http" in text or _DEVICE.search(text) or (_SENT_FROM_MY.match(first) and len(first.split()) <= 8)
        if (opens or _SENT_SUFFIX.search(text)) and device and len(text) <= 220 and _short(text):
            return lines[:start]
    return lines


def _short(text: str) -> bool:
    """Few words once links are gone: a device line is no sentence."""
    return len(re.sub(r"<[^>]{0,200}>|\(https?[^)]{0,200}\)|https?://\S{0,200}", "", text).split()) <= 12


def without_banner(lines: list[str]) -> list[str]:
    """Without a gateway's warning on top ("This email originated from outside …"), if words follow it."""
    begin = 0
    while begin < len(lines) and is_blank(lines[begin]):
        begin += 1
    end = begin
    while end < len(lines) and not is_blank(lines[end]) and end - begin < 8:
        end += 1
    paragraph = " ".join(lines[begin:end])[:1500]
    rest = lines[end:]
    if end > begin and _count(_BANNER, paragraph) and len(paragraph) < 900 and any(not is_blank(item) for item in rest):
        while rest and (is_blank(rest[0]) or is_rule(rest[0])):
            rest = rest[1:]
        return rest
    return lines
