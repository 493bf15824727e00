"""Message entities: what stands where in a text, with offsets in UTF-16 code units.

https://core.telegram.org/bots/api#messageentity
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.telegram.parsed import Bot


def utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text) + sum(1 for character in text if ord(character) > 0xFFFF)


@dataclass(frozen=True)
class Entity:
    """``start`` and ``end`` count characters of the Python string. ``words``: what it covers."""

    kind: str
    start: int
    end: int
    words: str
    given: Mapping[str, Any]


def read(text: str, entities: object) -> list[Entity]:
    """The entities that lie within the text, in order; others are left out."""
    given = [item for item in entities if isinstance(item, dict)] if isinstance(entities, list) else []
    if not given:
        return []
    at = _positions(text)
    found = []
    for item in given:
        offset, length = item.get("offset"), item.get("length")
        if not isinstance(offset, int) or not isinstance(length, int) or offset < 0 or length <= 0:
            continue
        start, end = at.get(offset), at.get(offset + length)
        if start is not None and end is not None:
            found.append(Entity(str(item.get("type")), start, end, text[start:end], item))
    return sorted(found, key=lambda entity: (entity.start, -entity.end))


def _positions(text: str) -> dict[int, int]:
    """UTF-16 offset → index of the character that begins there."""
    positions, units = {}, 0
    for index, character in enumerate(text):
        positions[units] = index
        units += 2 if ord(character) > 0xFFFF else 1
    positions[units] = len(text)
    return positions


def mentions(entity: Entity, bot: Bot) -> bool:
    """Whether an entity is a mention of the agent, by its user name (in any case) or by its id."""
    if entity.kind == "mention":
        return entity.words.lower() == f"@{bot.username.lower()}"
    user = entity.given.get("user")
    return entity.kind == "text_mention" and isinstance(user, dict) and user.get("id") == bot.id


def words(text: str, entities: list[Entity], bot: Bot) -> str:
    """The text as the agent reads it: its own mention removed, the target of a labelled link kept."""
    out, position = [], 0
    for entity in entities:
        if entity.start < position:
            continue
        if mentions(entity, bot):
            before, after = text[position : entity.start], text[entity.end :]
            out.append(before)
            position = entity.end + _separator(before, "".join(out), after)
        elif entity.kind == "text_link" and isinstance(entity.given.get("url"), str):
            out.append(text[position : entity.end])
            url = str(entity.given["url"])
            out.append("" if url.rstrip("/") == entity.words.rstrip("/") else f" ({url})")
            position = entity.end
    out.append(text[position:])
    return "".join(out) if position == 0 else "".join(out).strip()


def _separator(before: str, all_before: str, after: str) -> int:
    """How much of ``after`` separated a mention that is taken out: an address's comma, or one of two blanks."""
    if not all_before.strip():
        rest = after.lstrip(" \t")
        rest = rest[1:].lstrip(" \t") if rest[:1] in {",", ":"} else rest
        return len(after) - len(rest)
    return 1 if before[-1:].isspace() and after[:1] == " " else 0
