"""What the tools for files and pages answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def file_origin(path: str) -> str:
    return f"file {path}"


def page_origin(url: str) -> str:
    return f"page {url}"


def refused(reason: str) -> str:
    return f"It was not done: {reason}."


def no_answer(status: str) -> str:
    return "it was stopped" if status == "interrupted" else "what does this in the sandbox gave no answer"


def read(answer: Mapping[str, Any]) -> str:
    lines, first, last = (int(answer.get(name) or 0) for name in ("lines", "first", "last"))
    if not lines:
        return f"{answer.get('path')} is empty."
    whole = first == 1 and last == lines
    shown = f"{lines} lines" if whole else f"lines {first} to {last} of {lines}"
    return f"{answer.get('path')}, {shown}:\n{answer.get('text', '')}"


def written(answer: Mapping[str, Any]) -> str:
    how = "replaced" if answer.get("replaced") else "made"
    return f"{answer.get('path')} was {how}: {int(answer.get('bytes') or 0):,} bytes."


def edited(answer: Mapping[str, Any]) -> str:
    count = int(answer.get("count") or 0)
    where = f"at line {answer.get('line')}" if count == 1 else f"in {count} places, first at line {answer.get('line')}"
    return f"{answer.get('path')} was edited {where}."


def listed(answer: Mapping[str, Any]) -> str:
    entries = [str(entry) for entry in answer.get("entries", ())]
    more = int(answer.get("more") or 0)
    tail = [f"({more:,} more are not shown)"] if more else []
    return "\n".join([f"{answer.get('path')}:", *(entries or ["(nothing)"]), *tail])


def found(answer: Mapping[str, Any]) -> str:
    matches = [str(match) for match in answer.get("matches", ())]
    if not matches:
        return f"Nothing was found in {int(answer.get('files') or 0):,} files below {answer.get('path')}."
    return "\n".join([*matches, *([f"({answer['cut']})"] if answer.get("cut") else [])])


def fetched(answer: Mapping[str, Any]) -> str:
    head = f"{answer.get('url')} ({answer.get('type')}, {int(answer.get('bytes') or 0):,} bytes)"
    if answer.get("binary"):
        return f"{head} is no text; fetch it with the shell into a file."
    title = f"\n{answer['title']}" if answer.get("title") else ""
    cut = "\n(cut here: it is longer)" if answer.get("cut") else ""
    return f"{head}{title}\n\n{answer.get('text', '')}{cut}"


def not_fetched(url: str, answer: Mapping[str, Any]) -> str:
    how = f" {answer['how']}" if answer.get("how") else ""
    return f"{url} was not fetched: {answer.get('refused')}.{how}"


def bad_address(url: str) -> str:
    return f"{url} is no http or https address"
