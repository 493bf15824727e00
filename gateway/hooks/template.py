"""A hook's message: the words of the settings, with values of the delivery put in as what they are: data.

``{/pull_request/title}`` is a JSON pointer (RFC 6901) into the body; ``{hook}`` and ``{id}`` name hook and delivery;
``{header:x-github-event}`` is a header; ``{{`` and ``}}`` are braces. Nothing else is understood: no attribute, no
call, no format. A value is one line of bounded length, in quotation marks unless it is a plain word, and cannot close
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
NAME = re.compile(r"(?:/.*|)|hook|id|header:[A-Za-z0-9-]{1,100}", re.DOTALL)
PLAIN = re.compile(r"[\w.:/@#+=-]{1,80}")
VALUE_CHARACTERS = 300
NOTHING = "(nothing)"
COMMAND = "$"
NO_QUOTES = {0x201C: '"', 0x201D: '"'}


class BadTemplate(ValueError):
    """A template that cannot be used; the text says why."""


def check(template: str) -> str:
    """A template that can be used. Raises BadTemplate."""
    if not template.strip():
        raise BadTemplate("it is empty; write what the agent is to be told")
    for piece in PIECE.finditer(template):
        if piece[0] in ("{", "}"):
            raise BadTemplate("it has a single brace; write {{ or }} for a brace of its own")
        if piece[1] is not None and not NAME.fullmatch(piece[1]):
            raise BadTemplate(f"{{{piece[1]}}} is nothing that can be put in; write for example {{/repository/name}}")
        if piece[1] is not None and template.lstrip().startswith(COMMAND):
            # Whoever signs deliveries says what is in them: in a command it would be run.
            raise BadTemplate("a command takes no values of a delivery; leave the { } out")
    return template


def render(template: str, hook: str, delivery: str, headers: Mapping[str, str], body: Any) -> str:
    """The message of a delivery. ``body``: as JSON has it, None where it is none; ``headers``: names in lower case."""

    def piece(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name == "hook":
            return hook
        if name == "id":
            return shown(delivery)
        if name.startswith("header:"):
            return shown(headers.get(name.removeprefix("header:").lower()))
        return shown(pointed(body, name))

    return PIECE.sub(piece, template)


def pointed(body: Any, pointer: str) -> Any:
    """What a JSON pointer points to; None: nothing."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(body, dict):
            body = body.get(name)
        elif isinstance(body, list) and name.isascii() and name.isdigit() and int(name) < len(body):
            body = body[int(name)]
        else:
            return None
    return body


def shown(value: Any) -> str:
    """A value as one line that cannot be taken for anything but a value."""
    if value is None or value == "":
        return NOTHING
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * VALUE_CHARACTERS]).split())
    if PLAIN.fullmatch(line):
        return line
    short = line if len(line) <= VALUE_CHARACTERS else f"{line[:VALUE_CHARACTERS]}…"
    return f"“{short.translate(NO_QUOTES)}”"
