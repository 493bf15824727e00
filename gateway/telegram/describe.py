"""What ``nightporter channel parse telegram FILE…`` shows: how each update is read, one JSON object a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gateway.telegram import messages, parse
from gateway.telegram.parsed import ACTS, Bot, Parsed
from gateway.telegram.render import render

MAX_BYTES = 16 << 20


def bot_of(name: str) -> Bot:
    """Who the agent is, from ``USER:BOTID`` such as ``@helper_agent_bot:7012345678``."""
    first, _, second = name.partition(":")
    username, identifier = (second, first) if first.strip().isdigit() else (first, second)
    return Bot(username.strip().removeprefix("@"), int(identifier) if identifier.strip().isdigit() else 0)


def describe(paths: Sequence[Path], bot: str) -> Iterator[dict[str, Any]]:
    """One object a file, as one sequence. Raises OSError for a file that cannot be read."""
    who = bot_of(bot)
    read = []
    for path in paths:
        with path.open("rb") as file:
            read.append(parse.parse(parse.load(file.read(MAX_BYTES)), who))
    addressed = {(item.channel, item.group) for item in read if item.group and not item.needs_group}
    read = [messages.decide(item, (item.channel, item.group) in addressed) for item in read]
    albums = _albums(read)
    seen: set[str] = set()
    for path, parsed in zip(paths, read, strict=True):
        described = {"file": path.name, **describe_parsed(parsed), **albums.get(parsed.group, {})}
        if parsed.action in ACTS and parsed.dedupe_key:
            if parsed.dedupe_key in seen:
                described["action"] = "duplicate"
            seen.add(parsed.dedupe_key)
        yield described


def _albums(read: list[Parsed]) -> dict[str, dict[str, Any]]:
    """What the items of each album are together: one message."""
    members: dict[str, dict[str | None, str]] = defaultdict(dict)
    for parsed in read:
        if parsed.group and parsed.action in ACTS:
            members[parsed.group][parsed.dedupe_key] = parsed.text or ""
    return {
        group: {"group_size": len(items), "group_text": "\n".join(filter(None, items.values()))}
        for group, items in members.items()
    }


def describe_parsed(parsed: Parsed) -> dict[str, Any]:
    """An update in the words of the corpus."""
    described: dict[str, Any] = {
        "action": parsed.action,
        "text": parsed.text,
        "user": parsed.user,
        "team": None,
        "channel": parsed.channel,
        "thread": parsed.thread,
        "dedupe_key": parsed.dedupe_key,
        "attachments": [file.name for file in parsed.files],
    }
    if parsed.context:
        described["context"] = parsed.context
    return {**described, **parsed.details}


def describe_rendered(markdown: str) -> dict[str, Any]:
    """What ``nightporter channel render`` shows: the messages that an answer becomes."""
    return {"chunks": [chunk.text for chunk in render(markdown)]}
