"""What a person said themselves in the turn that runs: the only words that stand for their wish.

Quoted and forwarded words, files, pages and tools' output are not in it, whatever turn they were read in; nor are
quoted lines and code, which are often somebody else's, put there by pasting. In a room, where several speak, nobody's
words stand for all.
"""

from __future__ import annotations

import json
import re
from uuid import UUID

from sqlalchemy import Connection

from workspace_store import inbox, principal

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1`*~*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_WORD = re.compile(r"[\w@.+/:-]*\w")
_QUOTED = re.compile(r"^[ \t]*>.*$", re.MULTILINE)


def without_quotes(text: str) -> str:
    """A message without its quoted lines and code."""
    return _QUOTED.sub(" ", _INLINE_CODE.sub(" ", _FENCED.sub(" ", text)))


def of_turn(connection: Connection, owner: UUID, turn: UUID) -> list[str]:
    """The owner's own messages in a turn; none in a room."""
    if principal.kind(connection, owner) != "user":
        return []
    rows = [row for row in inbox.taken_by(connection, turn) if row.kind == "message" and row.actor == owner]
    return [without_quotes(str(json.loads(row.envelope).get("text", ""))) for row in rows]


def cover(said: list[str], text: str) -> bool:
    """Whether most of what ``text`` says, and every name, number and address in it, was said by the person."""
    mine = {word.casefold() for own in said for word in _WORD.findall(own)}
    wanted = [word for word in _WORD.findall(text) if len(word) > 3 or not word.isalpha()]
    missing = [word for word in wanted if word.casefold() not in mine]
    telling = [word for word in missing if not word.isalpha() or word[1:] != word[1:].lower()]
    return bool(wanted) and not telling and 2 * len(missing) <= len(wanted)


def names(texts: list[str], target: str) -> bool:
    """Whether words name exactly this target: whole, not as a part of something longer."""
    exact = re.compile(rf"(?<![\w.@:/+-]){re.escape(target)}(?![\w@:/+-]|\.\w)", re.IGNORECASE)
    return any(exact.search(text) for text in texts)
