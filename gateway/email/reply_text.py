"""Splits the text of a mail into the sender's own words and what is quoted or passed on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gateway.email import limits, quotes, signatures

_INVISIBLE = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_LIKELY_REPLY_LENGTH = 55


@dataclass(frozen=True)
class Split:
    """The sender's words, everything else in its place, and how it was found."""

    own: str
    context: str
    has_quote: bool
    forwarded: bool
    """The first thing that is not the sender's is a message passed on."""


def tidy(text: str) -> str:
    """Line ends made one, invisible characters dropped, odd blanks made plain."""
    text = _INVISIBLE.sub("", _one_newline(text))
    return text.replace("\xa0", " ").replace("\u202f", " ").replace("\u2007", " ")


def _one_newline(text: str) -> str:
    for end in ("\r\n", "\r", "\u2028", "\u2029", "\x0b", "\x0c", "\x85"):
        text = text.replace(end, "\n")
    return text


def unflow(text: str, *, delete_space: bool = False) -> str:
    """The paragraphs of format=flowed text put together again (RFC 3676)."""
    lines = _one_newline(text).split("\n")
    if len(lines) > limits.MAX_LINES:
        return text
    out: list[list[str]] = []
    open_depth = -1
    for line in lines:
        bare = line.lstrip(">")
        depth = len(line) - len(bare)
        bare = bare.removeprefix(" ")
        flows = bare.endswith(" ") and bare.rstrip() != "--" and bool(bare.strip())
        content = bare[:-1] if flows and delete_space else bare
        if open_depth == depth and out:
            out[-1].append(content)
        else:
            out.append([">" * depth + " ", content] if depth else [content])
        open_depth = depth if flows else -1
    return "\n".join(map("".join, out))


def split(text: str, *, is_reply: bool, late: Callable[[], bool] = lambda: False) -> Split:
    """Own words and context of a plain text.

    `is_reply` says that the headers make it an answer: then less is needed to take a line for an attribution.
    Text beyond `limits.MAX_LINES` lines, or what is left when `late` says that time is up, is kept, unsearched.
    """
    lines = tidy(text).split("\n")
    unsearched = lines[limits.MAX_LINES :]
    lines = signatures.without_banner(lines[: limits.MAX_LINES])
    owner, forwarded = _owners(lines, is_reply=is_reply, late=late)
    segments: list[list[str]] = [[]]
    for line, own in zip(lines, owner, strict=True):
        if own:
            segments[-1].append(line)
        elif segments[-1]:
            segments.append([])
    kept = [segment for segment in map(_own_words, segments) if segment]
    own_text = "\n\n".join("\n".join(segment) for segment in kept)
    if unsearched and all(owner):
        own_text = "\n".join([own_text, *unsearched])
    has_quote = not all(owner)
    context = _context(lines, owner, inline=len(kept) > 1) if has_quote else ""
    return Split(own_text.strip(), context, has_quote, forwarded)


def _own_words(segment: list[str]) -> list[str]:
    lines = signatures.strip(segment)
    return lines if any(not quotes.is_rule(line) and line.strip() for line in lines) else []


def _owners(lines: list[str], *, is_reply: bool, late: Callable[[], bool]) -> tuple[list[bool], bool]:
    """For each line whether it is the sender's own; and whether what is not is forwarded."""
    owner = [True] * len(lines)
    forwarded = False
    attributed: int | None = None
    first = True
    fence = signatures.fenced(lines)
    index = 0
    while index < len(lines):
        if quotes.quoted(lines[index]) and not fence[index]:
            if first and _forward_inside(lines, index):
                forwarded = True
            first = False
            owner[index] = False
            index += 1
            continue
        if index % 256 == 0 and late():
            break
        cut = None if fence[index] else quotes.find(lines, index, is_reply=is_reply)
        if cut is None or not cut.sure:
            index += 1
            continue
        if first:
            forwarded = cut.mark == "forward" or (cut.kind == "headers" and not _any_words(lines[: cut.start], owner))
        first = False
        attributed = cut.start if attributed is None else attributed
        after = _skip_blank(lines, cut.end)
        start = _with_separator(lines, cut.start) if cut.kind == "headers" else cut.start
        owner[start : cut.end] = [False] * (cut.end - start)
        if cut.kind == "attribution" and after < len(lines) and _quote_mark(lines[after]):
            index = _mark_quote(lines, owner, after)
            continue
        owner[start:] = [False] * (len(lines) - start)
        break
    _absorb_wrapped(lines, owner)
    _give_back_own_quotes(lines, owner, attributed, is_reply=is_reply)
    return owner, forwarded


def _give_back_own_quotes(lines: list[str], owner: list[bool], attributed: int | None, *, is_reply: bool) -> None:
    """Lines with `>` that quote nobody are the sender's own: all of them in a mail that answers nothing, and in an
    answer those that its own words introduce ("here is the log:") above the quote that names its author.
    """
    if attributed is None and not is_reply:
        owner[:] = [True] * len(owner)
    index = 0
    while attributed is not None and index < attributed:
        end = index
        while end < attributed and not owner[end]:
            end += 1
        above = next((lines[at].strip() for at in range(index - 1, max(index - 4, -1), -1) if lines[at].strip()), "")
        if end > index and above.endswith((":", "：")):
            owner[index:end] = [True] * (end - index)
        index = max(end, index + 1)


def _forward_inside(lines: list[str], index: int) -> bool:
    inner = [line.lstrip("> ") for line in lines[index : index + 4]]
    return any((cut := quotes.find(inner, at, is_reply=True)) and cut.mark == "forward" for at in range(len(inner)))


def _quote_mark(line: str) -> str:
    stripped = line.lstrip()
    return ">" if quotes.quoted(line) else "|" if stripped.startswith("|") else ""


def _mark_quote(lines: list[str], owner: list[bool], start: int) -> int:
    """Mark the quoted block at `start`; the position after it."""
    mark = _quote_mark(lines[start])
    index = start
    while index < len(lines) and (_quote_mark(lines[index]) == mark):
        owner[index] = False
        index += 1
    return index


def _skip_blank(lines: list[str], index: int) -> int:
    while index < len(lines) and not lines[index].strip():
        index += 1
    return index


def _with_separator(lines: list[str], start: int) -> int:
    """Where the rule above a header block begins."""
    at = start
    while at > 0 and start - at < 4 and (not lines[at - 1].strip() or quotes.is_rule(lines[at - 1])):
        at -= 1
    return at


def _any_words(lines: list[str], owner: list[bool]) -> bool:
    return any(own and line.strip() and not quotes.is_rule(line) for line, own in zip(lines, owner, strict=False))


def _absorb_wrapped(lines: list[str], owner: list[bool]) -> None:
    """Lines that lost their `>` when a program wrapped a long quoted line belong to the quote.

    They stand directly between quoted lines, go on in lower case, and the line above is long and no question.
    """
    index = 1
    while index < len(lines):
        if not owner[index] or owner[index - 1] or not quotes.quoted(lines[index - 1]):
            index += 1
            continue
        end = index
        while end < len(lines) and owner[end] and lines[end].strip() and end - index < 3:
            end += 1
        above = lines[index - 1].strip()
        begins_low = lines[index][:1].islower()
        closed = end < len(lines) and quotes.quoted(lines[end])
        if end > index and closed and begins_low and len(above) >= _LIKELY_REPLY_LENGTH and not above.endswith("?"):
            owner[index:end] = [False] * (end - index)
        index = max(end, index + 1)


def _context(lines: list[str], owner: list[bool], *, inline: bool) -> str:
    """What the agent may see besides: the quotes, or with answers in between the whole exchange in its order."""
    begin = owner.index(False)
    chosen = lines[begin:] if inline else [line for line, own in zip(lines, owner, strict=True) if not own]
    return "\n".join(chosen).strip()[: limits.MAX_CONTEXT_CHARS]
