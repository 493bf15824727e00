"""What ``nightporter channel parse slack FILE…`` shows: how each delivery is read, one JSON object a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gateway.slack import parse
from gateway.slack.parsed import Bot, Parsed
from gateway.slack.render import render
from gateway.slack.strands import Strands

MAX_BYTES = 16 << 20


def bot_of(name: str) -> Bot:
    """Who the agent is, from ``USER:BOTID`` such as ``U08NHAGENT1:B08NHAGENT1``."""
    user, _, bot_id = name.partition(":")
    return Bot(user.strip().removeprefix("@"), bot_id.strip())


def describe(paths: Sequence[Path], bot: str) -> Iterator[dict[str, Any]]:
    """One object a file, as one sequence. Raises OSError for a file that cannot be read."""
    who, strands = bot_of(bot), Strands()
    for path in paths:
        with path.open("rb") as file:
            body = parse.load(file.read(MAX_BYTES))
        yield {"file": path.name, **describe_parsed(strands.follow(parse.parse(body, who)))}


def describe_parsed(parsed: Parsed) -> dict[str, Any]:
    """A delivery in the words of the corpus; a file without a name is ``?ID``."""
    described: dict[str, Any] = {
        "action": parsed.action,
        "text": parsed.text,
        "user": parsed.user,
        "team": parsed.team,
        "channel": parsed.channel,
        "thread": parsed.thread,
        "dedupe_key": parsed.dedupe_key,
        "attachments": [file.name or f"?{file.id}" for file in parsed.files],
    }
    if parsed.context:
        described["context"] = parsed.context
    return {**described, **parsed.details}


def describe_rendered(markdown: str) -> dict[str, Any]:
    """What ``nightporter channel render`` shows: the messages that an answer becomes."""
    return {"chunks": [chunk.text for chunk in render(markdown)]}
