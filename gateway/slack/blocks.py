"""Block Kit blocks as words, for messages whose words stand only there.

https://docs.slack.dev/reference/block-kit/blocks. Rich text is not escaped and has no tokens; ``mrkdwn``
objects have both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.slack import tokens
from gateway.slack.parsed import Bot

MAX_DEPTH = 12
_BULLET = "•"


def text_of(blocks: object, bot: Bot) -> str:
    """All words of the blocks, a line break between them."""
    marked = "\n".join(filter(None, (_block(block, bot) for block in _dicts(blocks))))
    return tokens.without_mention(marked).strip("\n")


def mentions(blocks: object, bot: Bot) -> bool:
    """Whether the blocks mention the agent, as an element or as a token in mrkdwn."""
    return _mentions(blocks, bot, 0)


def _mentions(value: object, bot: Bot, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, list):
        return any(_mentions(item, bot, depth + 1) for item in value)
    if not isinstance(value, dict):
        return False
    if value.get("type") == "user" and value.get("user_id") == bot.user:
        return True
    if value.get("type") == "mrkdwn":
        return tokens.mentions(_string(value.get("text")), bot)
    return any(_mentions(item, bot, depth + 1) for item in value.values() if isinstance(item, list | dict))


def _block(block: Mapping[str, Any], bot: Bot) -> str:
    kind = block.get("type")
    if kind == "rich_text":
        return "\n".join(_rich(element, bot).strip("\n") for element in _dicts(block.get("elements")))
    if kind in {"section", "header"}:
        parts = [block.get("text"), *_list(block.get("fields"))]
        return "\n".join(filter(None, (_text_object(part, bot) for part in parts)))
    if kind == "context":
        return " ".join(filter(None, (_context(element, bot) for element in _dicts(block.get("elements")))))
    if kind == "markdown":
        return _string(block.get("text"))
    if kind == "table":
        return "\n".join(" | ".join(_cell(cell, bot) for cell in _dicts(row)) for row in _list(block.get("rows")))
    if kind in {"image", "video"}:
        title = _text_object(block.get("title"), bot) or _string(block.get("alt_text"))
        address = _string(block.get("image_url") or block.get("title_url") or block.get("video_url"))
        return tokens.link(address, title) if address else title
    return ""


def _context(element: Mapping[str, Any], bot: Bot) -> str:
    return _string(element.get("alt_text")) if element.get("type") == "image" else _text_object(element, bot)


def _cell(cell: Mapping[str, Any], bot: Bot) -> str:
    return _block(cell, bot) if cell.get("type") == "rich_text" else _string(cell.get("text"))


def _text_object(value: object, bot: Bot) -> str:
    if not isinstance(value, dict):
        return ""
    text = _string(value.get("text"))
    return tokens.words(text, bot) if value.get("type") == "mrkdwn" else text


def _rich(element: Mapping[str, Any], bot: Bot, depth: int = 0) -> str:
    """A part of a rich text, with the marks of the agent's own mention still in it."""
    kind, inside = element.get("type"), _dicts(element.get("elements"))
    if depth > MAX_DEPTH:
        return ""
    if kind == "rich_text_list":
        return _rich_list(element, bot, depth)
    if kind == "rich_text_preformatted":
        return f"```\n{_spans(inside, bot)}\n```"
    if kind == "rich_text_quote":
        return "\n".join(f"> {line}" for line in _spans(inside, bot).split("\n"))
    return _spans(inside, bot)


def _rich_list(element: Mapping[str, Any], bot: Bot, depth: int) -> str:
    ordered = element.get("style") == "ordered"
    indent = "  " * _number(element.get("indent"))
    first = _number(element.get("offset")) + 1
    lines = []
    for number, item in enumerate(_dicts(element.get("elements")), first):
        mark = f"{number}." if ordered else _BULLET
        lines.append(f"{indent}{mark} {_rich(item, bot, depth + 1)}")
    return "\n".join(lines)


def _spans(elements: Iterable[Mapping[str, Any]], bot: Bot) -> str:
    return "".join(_span(element, bot) for element in elements)


def _span(element: Mapping[str, Any], bot: Bot) -> str:
    kind = element.get("type")
    if kind == "text":
        return _string(element.get("text"))
    if kind == "link":
        return tokens.link(_string(element.get("url")), _string(element.get("text")))
    if kind == "user":
        return tokens.person(_string(element.get("user_id")), bot)
    if kind == "channel":
        return f"#{element.get('name') or element.get('channel_id')}"
    if kind == "usergroup":
        return f"@{element.get('usergroup_id')}"
    if kind == "broadcast":
        return f"@{element.get('range')}"
    if kind == "emoji":
        return _emoji(element)
    if kind == "date":
        return _string(element.get("fallback") or element.get("timestamp"))
    if kind == "color":
        return _string(element.get("value"))
    return _string(element.get("text"))


def _emoji(element: Mapping[str, Any]) -> str:
    try:
        return "".join(chr(int(code, 16)) for code in _string(element.get("unicode")).split("-"))
    except (ValueError, OverflowError):
        return f":{element.get('name')}:"


def _string(value: object) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def _number(value: object) -> int:
    return min(value, 10_000) if isinstance(value, int) and value > 0 else 0


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]
