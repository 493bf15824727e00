"""The agent's markdown as the two parts of a mail: plain text that reads well by itself, and clean HTML."""

from __future__ import annotations

import html
import re
import unicodedata
from typing import NamedTuple

from gateway.rendering.tree import MAX_MARKDOWN_CHARS, Node, read_markdown, target, words

_URL = re.compile(r"https?://[^\s<>\"'`]{1,2000}")
_CODE_STYLE = "font-family:ui-monospace,Menlo,Consolas,monospace"
_TABLE_STYLE = "border-collapse:collapse"
_CELL_STYLE = "border:1px solid #ccc;padding:3px 8px"


class Rendered(NamedTuple):
    """The text/plain and the text/html part. Both are empty for blank markdown."""

    text: str
    html: str


def render(markdown: str) -> Rendered:
    """Both parts of a mail from one tree."""
    if not markdown.strip():
        return Rendered("", "")
    if len(markdown) > MAX_MARKDOWN_CHARS:
        return Rendered(markdown.strip() + "\n", _page(f"<pre>{html.escape(markdown)}</pre>"))
    tree = read_markdown(markdown)
    return Rendered("\n".join(_text_blocks(tree)).strip("\n") + "\n", _page(_html_children(tree)))


def _page(body: str) -> str:
    return f'<!doctype html>\n<html><head><meta charset="utf-8"></head><body>\n{body}\n</body></html>\n'


# --- HTML ---------------------------------------------------------------------------------------------------------


def _html_children(node: Node) -> str:
    return "".join(_html(child) for child in node.children)


_SIMPLE = {
    "strong": "strong",
    "em": "em",
    "s": "s",
    "bullet_list": "ul",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
}


def _html(node: Node) -> str:
    kind = node.type
    if kind in _SIMPLE:
        tag = _SIMPLE[kind]
        newline = "\n" if node.block else ""
        return f"<{tag}>{newline}{_html_children(node)}</{tag}>{newline}"
    if kind == "text":
        return _html_text(node)
    if kind == "inline":
        return _html_children(node)
    if kind == "paragraph":
        return _html_children(node) + "\n" if _tight(node) else f"<p>{_html_children(node)}</p>\n"
    if kind in {"softbreak", "hardbreak"}:
        return "<br>\n"
    if kind == "code_inline":
        return f"<code>{html.escape(node.content, quote=False)}</code>"
    if kind in {"fence", "code_block"}:
        return f'<pre style="{_CODE_STYLE}"><code>{html.escape(node.content, quote=False)}</code></pre>\n'
    if kind == "heading":
        return f"<{node.tag}>{_html_children(node)}</{node.tag}>\n"
    if kind == "ordered_list":
        start = node.attrGet("start")
        opening = f'<ol start="{int(start)}">' if start is not None else "<ol>"
        return f"{opening}\n{_html_children(node)}</ol>\n"
    if kind == "list_item":
        return f"<li>{_html_children(node).strip()}</li>\n"
    if kind == "blockquote":
        return f"<blockquote>\n{_html_children(node)}</blockquote>\n"
    if kind == "hr":
        return "<hr>\n"
    if kind == "table":
        return f'<table style="{_TABLE_STYLE}">\n{_html_children(node)}</table>\n'
    if kind in {"th", "td"}:
        return f'<{kind} style="{_CELL_STYLE}{_alignment(node)}">{_html_children(node)}</{kind}>\n'
    if kind in {"link", "image"}:
        return _html_link(node)
    return _html_children(node) if node.children else html.escape(node.content, quote=False)


def _html_text(node: Node) -> str:
    """Text with bare addresses made links, as mail programs do anyway."""
    if _inside(node, "link"):
        return html.escape(node.content, quote=False)
    out, position = [], 0
    for found in _URL.finditer(node.content):
        url = found.group(0).rstrip(".,;:!?)]}*_")
        out.append(html.escape(node.content[position : found.start()], quote=False))
        out.append(f'<a href="{html.escape(url)}">{html.escape(url, quote=False)}</a>')
        position = found.start() + len(url)
    out.append(html.escape(node.content[position:], quote=False))
    return "".join(out)


def _html_link(node: Node) -> str:
    """A link keeps its address only if it is http, https or mailto; an image is a link: nothing is loaded unasked."""
    address = target(node)
    label = html.escape(words(node) or address, quote=False) if node.type == "image" else _html_children(node)
    if not address or _inside(node, "link"):
        return label
    return f'<a href="{html.escape(address)}">{label}</a>'


def _inside(node: Node, kind: str) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.type == kind:
            return True
        parent = parent.parent
    return False


def _tight(node: Node) -> bool:
    return node.hidden


def _alignment(node: Node) -> str:
    style = str(node.attrGet("style") or "")
    return f";{style}" if style in {"text-align:left", "text-align:right", "text-align:center"} else ""


# --- Plain text ---------------------------------------------------------------------------------------------------


def _text_blocks(node: Node) -> list[str]:
    """The lines of a node's blocks, with a blank line between blocks."""
    out: list[str] = []
    for child in node.children:
        lines = _text_block(child)
        if (
            out
            and lines
            and not (child.type == "paragraph" and _tight(child))
            and child.type != "list_item"
            and not _follows_tight(child)
        ):
            out.append("")
        out.extend(lines)
    return out


def _follows_tight(node: Node) -> bool:
    """A list directly under the words of a tight list item stays with them."""
    before = node.previous_sibling
    return before is not None and before.type == "paragraph" and _tight(before)


def _text_block(node: Node) -> list[str]:
    kind = node.type
    if kind == "heading":
        title = _text_inline(node).replace("\n", " ")
        return (
            [title, ("=" if node.tag == "h1" else "-") * min(_width(title), 72)]
            if node.tag in {"h1", "h2"}
            else [title]
        )
    if kind in {"fence", "code_block"}:
        return [f"    {line}".rstrip() for line in node.content.rstrip("\n").split("\n")]
    if kind in {"bullet_list", "ordered_list"}:
        return _text_list(node)
    if kind == "blockquote":
        return [f"> {line}".rstrip() for line in _text_blocks(node)]
    if kind == "hr":
        return ["* * *"]
    if kind == "table":
        return _text_table(node)
    if kind in {"paragraph", "inline"}:
        return _text_inline(node).split("\n")
    return _text_blocks(node) if node.children else node.content.split("\n")


def _text_list(node: Node) -> list[str]:
    out: list[str] = []
    number = int(node.attrGet("start") or 1) if node.type == "ordered_list" else None
    for item in node.children:
        mark = "- " if number is None else f"{number}. "
        lines = _text_blocks(item) or [""]
        if out and any(child.type == "paragraph" and not _tight(child) for child in item.children):
            out.append("")
        out.append(mark + lines[0])
        out.extend((" " * len(mark) + line).rstrip() for line in lines[1:])
        number = None if number is None else number + 1
    return out


def _text_table(node: Node) -> list[str]:
    """Columns padded to the same width, a rule below the head."""
    rows = [
        [_text_inline(cell).replace("\n", " ") for cell in row.children]
        for part in node.children
        for row in part.children
    ]
    columns = max((len(row) for row in rows), default=0)
    widths = [max((_width(row[i]) for row in rows if i < len(row)), default=0) for i in range(columns)]
    lines = ["  ".join(_padded(cell, widths[i]) for i, cell in enumerate(row)).rstrip() for row in rows]
    return [*lines[:1], "  ".join("-" * max(width, 1) for width in widths), *lines[1:]]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


def _text_inline(node: Node) -> str:
    return "".join(_text_span(child) for child in node.children)


def _text_span(node: Node) -> str:
    kind = node.type
    if kind in {"softbreak", "hardbreak"}:
        return "\n"
    if kind in {"text", "code_inline"}:
        return node.content
    if kind == "strong":
        return f"*{_text_inline(node)}*"
    if kind == "em":
        return f"_{_text_inline(node)}_"
    if kind in {"link", "image"}:
        return _text_link(node)
    return _text_inline(node) if node.children else node.content


def _text_link(node: Node) -> str:
    label = words(node) if node.type == "image" else _text_inline(node)
    address = target(node)
    if not address or label in {address, address.removeprefix("mailto:")}:
        return label or address
    return f"{label} <{address}>" if label else address
