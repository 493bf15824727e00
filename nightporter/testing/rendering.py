"""Compare how a chat channel shows markdown with a corpus of cases.

``slack``, ``telegram_html`` and ``…_accept`` are exact after white space at line ends is removed; ``…_regex`` must
match in full; ``…_contains`` and ``…_not_contains`` are parts. ``telegram_chunk…`` and
``slack_chunk…`` are about splitting.
"""

from __future__ import annotations

import html.parser
import re
from collections.abc import Mapping, Sequence
from typing import Any


class Markup(html.parser.HTMLParser):
    """Telegram's HTML, read: its text, whether it is well-formed, how deep block quotes nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.balanced = True
        self.deepest = 0
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.balanced = self.balanced and not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.deepest = max(self.deepest, self._open.count("blockquote"))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.balanced = False

    def handle_data(self, data: str) -> None:
        self.text += data


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def differences(case: Mapping[str, Any], channel: str, chunks: Sequence[str]) -> list[str]:
    """What differs from what a case wants of ``slack`` or ``telegram``."""
    if case.get("send") is False:
        return ["something is sent"] if chunks else []
    out = "\n".join(chunks)
    found = _form(case, channel, _trimmed(out))
    found += [f"lacks {words!r}" for words in case.get(f"{channel}_contains", []) if words not in out]
    found += [f"has {words!r}" for words in case.get(f"{channel}_not_contains", []) if words in out]
    found += [f"lost {words!r}" for words in case.get("words_must_survive", []) if words not in out]
    return found + (_slack(case, chunks) if channel == "slack" else _telegram(case, chunks))


def _form(case: Mapping[str, Any], channel: str, out: str) -> list[str]:
    exact = "slack" if channel == "slack" else "telegram_html"
    accepted = [_trimmed(form) for form in [*case.get(f"{channel}_accept", []), *filter(None, [case.get(exact)])]]
    pattern = case.get(f"{channel}_regex")
    if accepted and out not in accepted:
        return [f"{out!r} instead of {accepted[0]!r}"]
    return [f"{out!r} does not match {pattern!r}"] if pattern and not re.fullmatch(pattern, out) else []


def _slack(case: Mapping[str, Any], chunks: Sequence[str]) -> list[str]:
    found = []
    longest, fences = max(map(len, chunks), default=0), sum(chunk.count("```") for chunk in chunks)
    if len(chunks) < case.get("slack_chunks_min", 0) or longest > case.get("slack_chunk_max", longest):
        found.append(f"{len(chunks)} chunks of at most {longest}")
    if any(chunk.count("```") % 2 for chunk in chunks) or fences != case.get("slack_fences", fences):
        found.append(f"{fences} fences")
    return found


def _telegram(case: Mapping[str, Any], chunks: Sequence[str]) -> list[str]:
    read = [Markup(chunk) for chunk in chunks]
    found = ["a chunk is not well-formed"] if not all(markup.balanced for markup in read) else []
    longest = max((utf16(markup.text) for markup in read), default=0)
    least, most = case.get("telegram_chunks_min", 0), case.get("telegram_chunks_max", len(chunks))
    if not least <= len(chunks) <= most or longest > case.get("telegram_chunk_max_utf16", longest):
        found.append(f"{len(chunks)} chunks of at most {longest} units")
    text = "".join(markup.text for markup in read)
    if text != case.get("telegram_joined_text", text):
        found.append("the joined text differs")
    for tag, depth in case.get("telegram_max_depth", {}).items():
        if any(markup.deepest > depth for markup in read):
            found.append(f"{tag} is nested")
    return found + _cuts(case, [markup.text for markup in read], chunks)


def _cuts(case: Mapping[str, Any], texts: Sequence[str], chunks: Sequence[str]) -> list[str]:
    found = []
    source = str(case["markdown"])
    if case.get("no_mid_word"):
        words = set(re.findall(r"\w+", source))
        found += [f"a word is cut: {word}" for text in texts for word in re.findall(r"\w+", text) if word not in words]
    if case.get("no_mid_line"):
        lines = {re.sub(r"[*`]", "", line).strip() for line in source.splitlines()}
        found += [f"a line is cut: {line}" for text in texts for line in text.splitlines() if line.strip() not in lines]
    if case.get("fences_reopen"):
        found += ["code is not reopened" for chunk in chunks if "print(" in chunk and "language-python" not in chunk]
    return found


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))
