"""Where a mail stops being its sender's words: attributions, header blocks, separators, in any language known.

Every pattern is anchored and bounded, and is only shown lines of at most MAX_LINE_CHARS: linear whatever comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gateway.email import languages
from gateway.email.limits import MAX_LINE_CHARS

Mark = Literal["history", "forward"]

MAX_ATTRIBUTION_LINES = 4
MAX_ATTRIBUTION_CHARS = 400


def _words(words: Sequence[str]) -> str:
    return "|".join(re.escape(w) for w in sorted(set(words), key=len, reverse=True))


_EDGE, _END = r"(?<![^\W\d_])", r"(?![^\W\d_])"
_WROTE = re.compile(
    f"{_EDGE}(?:{_words(languages.WROTE)}){_END}|写道|寫道|書きました|のメッセージ|のメール|작성|เขียนว่า", re.IGNORECASE
)
_OPENER = re.compile(rf"(?:{_words(languages.OPENERS)})(?:[\s,.:]|(?=\d))", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w.+%'=/-]{1,80}@[\w-]{1,80}(?:\.[\w-]{1,80}){0,6}")
_FINAL_ADDRESS = re.compile(r"[<(\[][^<>()\[\]\s]{1,100}@[^<>()\[\]\s]{1,100}[>)\]]{1,3}\s{0,3}[:：]$")
_NUMERIC_DATE = re.compile(
    r"(?<!\d)(?:\d{1,4}\s{0,2}[./-]\s{0,2}\d{1,2}\s{0,2}[./-]\s{0,2}\d{2,4}|\d{4}\s{0,2}[年년])(?!\d)"
)
_YEAR = re.compile(r"(?<!\d)(?:19|20|25)\d\d(?!\d)")
_DAY = re.compile(r"(?<![\d:.])\d{1,2}(?![\d:])")
_TIME = re.compile(r"(?<!\d)\d{1,2}\s?[:.h時시]\s?\d{2}(?!\d)")
_START_DATE = re.compile(r"[\"'(\[]?(?:\w{1,12}\.?,?\s{0,2}){0,2}\d{1,4}(?:[\s./年년,-]|$)")
_ENDS = re.compile(
    r"[:：]$|(?:wrote|schrieb|escribió|a écrit|escreveu|написал|ha scritto)\s{0,3}(?:-{2,10}|\.{3}|…)$", re.IGNORECASE
)
_DASHES = "-–—_=*#‐‒―"


def _stems(words: Sequence[str]) -> re.Pattern[str]:
    """Beginnings of words; scripts that write no blanks, or join small words to the next one, have no such edge."""
    edged = [word for word in words if word[0] < "\u0590"]
    free = [word for word in words if word[0] >= "\u0590"]
    return re.compile(f"{_EDGE}(?:{_words(edged)})|{_words(free)}", re.IGNORECASE)


_ORIGINAL_STEM = _stems(languages.ORIGINAL_STEMS)
_FORWARD_STEM = _stems(languages.FORWARD_STEMS)
_MESSAGE_STEM = _stems(languages.MESSAGE_STEMS)
MAX_SEPARATOR_WORDS = 6
_ORIGINAL = re.compile(f"(?:{_words(languages.ORIGINAL)})", re.IGNORECASE)
_FORWARDED = re.compile(f"(?:{_words(languages.FORWARDED)})", re.IGNORECASE)
_LABELS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (role, re.compile(rf"[*_\s]{{0,4}}(?:{_words(words)})[*_\s]{{0,3}}[:：][*_]{{0,2}}", re.IGNORECASE))
    for role, words in (
        ("from", languages.FROM),
        ("date", languages.DATE),
        ("subject", languages.SUBJECT),
        ("to", languages.TO),
    )
)
_PREVIOUS = re.compile(r"[*_#\s]{0,4}previous (?:replies|discussion|messages?)[*_:\s]{0,4}$", re.IGNORECASE)
_ABOVE = re.compile(
    r"[#\-–—_=*\s]{0,30}(?:please )?(?:type your )?(?:reply|respond|write|antwort\w*|répon\w+|respond\w+) "
    r"(?:above|oberhalb|au-dessus|por encima|acima)\b.{0,60}$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Cut:
    """`lines[start:end]` introduce somebody else's words. `sure` is false where it may be the sender's own prose."""

    start: int
    end: int
    mark: Mark
    kind: Literal["attribution", "headers", "separator"]
    sure: bool = True


_BLANKS = " \t\r\xa0\u202f\ufeff\u200b\u1427"


def is_blank(line: str) -> bool:
    """Whether a line holds nothing that is seen."""
    return not line.strip(_BLANKS)


def is_rule(line: str) -> bool:
    """Whether a line is only a rule of dashes, underscores or the like."""
    stripped = line.strip()
    return 2 <= len(stripped) <= MAX_LINE_CHARS and not stripped.strip("-–—_=*~#+ ")


def quoted(line: str) -> bool:
    """Whether a line is quoted by `>` (RFC 3676, 4.5) or `|`."""
    stripped = line.lstrip()
    return stripped.startswith((">", "＞")) and not stripped.startswith((">:", "> :"))


def find(lines: Sequence[str], index: int, *, is_reply: bool) -> Cut | None:
    """The cut that begins at or ends at `lines[index]`; None if there is none.

    An attribution is found at its last line, a separator or a header block at its first.
    """
    line = lines[index]
    if not line.strip() or len(line) > MAX_LINE_CHARS:
        return None
    return _separator(lines, index) or _headers(lines, index, is_reply=is_reply) or _attribution(lines, index, is_reply)


def _separator(lines: Sequence[str], index: int) -> Cut | None:
    line = lines[index].strip()
    if _PREVIOUS.match(line) or (_ABOVE.match(line) and index):
        return Cut(index, index + 1, "history", "separator")
    if len(line) > 200:
        return None
    inner = line.replace("&nbsp;", " ").strip(" :" + _DASHES)
    few = len(inner.split()) <= MAX_SEPARATOR_WORDS
    if inner and line[0] in _DASHES and line[1] in _DASHES:
        framed = few and line.rstrip(" :")[-2:].strip(_DASHES) == ""
        framed = framed and bool(_MESSAGE_STEM.search(inner) or _next_headers(lines, index + 1))
        if _FORWARDED.fullmatch(inner) or inner.lower().startswith("forwarded by "):
            return Cut(index, index + 1, "forward", "separator")
        if _ORIGINAL.fullmatch(inner):
            return Cut(index, index + 1, "history", "separator")
        if framed and _FORWARD_STEM.search(inner):
            return Cut(index, index + 1, "forward", "separator")
        if framed and _ORIGINAL_STEM.search(inner):
            return Cut(index, index + 1, "history", "separator")
        return None
    bare = line.rstrip(":：* ").lstrip("* ")
    introduces = line.endswith((":", "："))
    if introduces and _FORWARDED.fullmatch(bare):
        return Cut(index, index + 1, "forward", "separator")
    if introduces and few and _FORWARD_STEM.search(bare) and _next_headers(lines, index + 1):
        return Cut(index, index + 1, "forward", "separator")
    if _ORIGINAL.fullmatch(bare) and _next_headers(lines, index + 1):
        return Cut(index, index + 1, "history", "separator")
    return None


def _next_headers(lines: Sequence[str], index: int) -> bool:
    while index < len(lines) and not lines[index].strip():
        index += 1
    return index < len(lines) and _headers(lines, index, is_reply=True) is not None


def label_role(line: str) -> str | None:
    """Which field of a header block a line is: from, date, subject or to."""
    head = line.lstrip()[:60]
    return _role(head) if ":" in head or "：" in head else None


@lru_cache(maxsize=1024)
def _role(head: str) -> str | None:
    for role, pattern in _LABELS:
        if pattern.match(head):
            return role
    return None


def _headers(lines: Sequence[str], index: int, *, is_reply: bool) -> Cut | None:
    """A block such as `From: … Sent: … To: … Subject: …`, as Outlook puts above an unquoted original."""
    if label_role(lines[index]) is None:
        return None
    roles: list[str] = []
    blanks = unlabelled = 0
    at = end = index
    while at < len(lines) and at < index + 16:
        line = lines[at].strip()
        if not line:
            blanks += 1
            if blanks > 1 or (len(set(roles)) >= 3 and not _more_labels(lines, at)):
                break
        else:
            role = label_role(line) if len(line) <= MAX_LINE_CHARS else None
            if role:
                roles.append(role)
                blanks = unlabelled = 0
                end = at + 1
            else:
                unlabelled += 1  # a folded value
                if unlabelled > 3 or blanks:
                    break
        at += 1
    distinct = set(roles)
    named = "from" in distinct or len(distinct) >= 3
    addressed = any("@" in lines[i] for i in range(index, end))
    if not named or len(distinct) < (2 if is_reply and (addressed or "date" in distinct) else 3):
        return None
    return Cut(index, end, "history", "headers")


def _more_labels(lines: Sequence[str], blank: int) -> bool:
    return blank + 1 < len(lines) and label_role(lines[blank + 1]) is not None


@dataclass(frozen=True)
class _Features:
    address: bool
    dated: bool
    timed: bool
    wrote: bool
    opened: bool

    @property
    def weight(self) -> int:
        return 2 * self.address + self.dated + self.timed + self.opened


def _features(text: str) -> _Features:
    return _Features(
        address=bool(_ADDRESS.search(text)),
        dated=bool(_NUMERIC_DATE.search(text) or (_YEAR.search(text) and _DAY.search(_YEAR.sub("", text)))),
        timed=bool(_TIME.search(text)),
        wrote=bool(_WROTE.search(text)),
        opened=bool(_OPENER.match(text) or _START_DATE.match(text)),
    )


def _attribution(lines: Sequence[str], index: int, is_reply: bool) -> Cut | None:
    """A line or a few such as `On Tue, Ann <ann@example.org> wrote:`, wrapped or not, ending at `index`."""
    if len(lines[index]) > MAX_ATTRIBUTION_CHARS:
        return None
    last = lines[index].strip().rstrip("*_ ")
    following = _next_line(lines, index + 1)
    into_quote = following is not None and (quoted(following) or following.lstrip().startswith("|"))
    closed = bool(_ENDS.search(last[-40:]))
    if not closed and not (into_quote and last.endswith(">") and "@" in last):
        return None
    best: tuple[int, int, str, _Features] | None = None
    text = ""
    for count in range(MAX_ATTRIBUTION_LINES):
        at = index - count
        if (
            at < 0
            or not lines[at].strip()
            or len(lines[at]) > MAX_ATTRIBUTION_CHARS
            or quoted(lines[at])
            or (count and _stops(lines[at]))
        ):
            break
        text = f"{lines[at].strip()} {text}".strip().replace("< ", "<").replace("( ", "(")
        found = _features(text)
        torn = lines[at].rstrip().endswith(("<", "("))  # an address was wrapped after its bracket
        if best is None or found.weight > best[0] or torn:
            best = (found.weight, at, text, found)
    if best is None:
        return None
    _, start, text, found = best
    text = text.rstrip("*_ ").lstrip("-–—*_ ")
    if not _plausible(text, found, closed=closed, into_quote=into_quote):
        return None
    sure = into_quote or is_reply or (found.address and found.dated and found.wrote)
    return Cut(start, index + 1, "history", "attribution", sure)


def _plausible(text: str, found: _Features, *, closed: bool, into_quote: bool) -> bool:
    if len(text) > 500:
        return False
    if not closed:
        return found.dated and found.opened
    ends_wrote = found.wrote and bool(_WROTE.search(text[-45:]))
    if found.wrote and (found.address or found.dated):
        return found.dated or ends_wrote or found.opened
    if into_quote:
        return (ends_wrote and len(text) <= 120) or (found.dated and found.timed) or bool(_FINAL_ADDRESS.search(text))
    if found.wrote and found.timed and found.opened:
        return True
    if text.lower().startswith(languages.QUOTING) and _FINAL_ADDRESS.search(text):
        return True
    return found.dated and found.timed and found.opened and bool(_FINAL_ADDRESS.search(text))


def _stops(line: str) -> bool:
    """Whether a line above cannot belong to an attribution: it ends a sentence or is a rule."""
    stripped = line.strip()
    return is_rule(stripped) or stripped.endswith(("!", "?", ":")) or stripped.startswith("```")


def _next_line(lines: Sequence[str], index: int) -> str | None:
    """The next line that holds something, at most three blank ones on."""
    for line in lines[index : index + 4]:
        if not is_blank(line):
            return line
    return None
