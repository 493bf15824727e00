"""A markdown tree as a flat list of blocks for chat: styled text, quotes and code, with lists and tables laid out.

Chat platforms know neither headings, lists nor tables: headings become bold lines, lists lines with marks, narrow
tables aligned code and wide ones a line a row.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from gateway.rendering.tree import MAX_MARKDOWN_CHARS, Node, is_blank, read_markdown, target, without_controls, words

MAX_URL_CHARS = 1500
"""A longer address is shown, not linked."""
MAX_TABLE_WIDTH = 72
MAX_INFO_CHARS = 80
_BULLETS = "•◦▪"
_RULE = "───"
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_TASK = re.compile(r"\[([ xX])\] ")
_CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_CJK_BOLD = re.compile(rf"\*\*(?=\S)([^*]+)(?<=\S)\*\*(?=[{_CJK}])|(?<=[{_CJK}])\*\*(?=\S)([^*]+)(?<=\S)\*\*")
"""Bold that CommonMark does not see: its rule for letters beside punctuation supposes blanks between words."""


class Mark(NamedTuple):
    """A style. ``url`` for links."""

    kind: Literal["bold", "italic", "strike", "code", "link"]
    url: str = ""


@dataclass(frozen=True)
class Span:
    """Text under marks, the outermost first."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Block:
    """``gap``: the line breaks between it and what comes before. ``heading``: belongs to what follows."""

    kind: Literal["text", "quote", "code"]
    spans: tuple[Span, ...]
    gap: str = "\n\n"
    language: str = ""
    heading: bool = False

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


def layout(markdown: str) -> list[Block]:
    """The blocks of an answer; none for one without words."""
    if is_blank(markdown):
        return []
    if len(markdown) > MAX_MARKDOWN_CHARS:
        return [Block("text", (Span(without_controls(markdown).strip()),))]
    blocks = list(_children(read_markdown(markdown), 0))
    if any(not is_blank(block.text) for block in blocks):
        return blocks
    return [Block("text", (Span(markdown.strip()),))]  # Only marks: better shown as they are than not at all.


def _children(node: Node, depth: int) -> Iterator[Block]:
    for child in node.children:
        yield from _block(child, depth)


def _block(node: Node, depth: int) -> Iterator[Block]:
    kind = node.type
    if kind in {"paragraph", "inline"}:
        spans = tuple(_trimmed(_merged(_spans(node, ()))))
        if spans:
            yield Block("text", spans)
    elif kind == "heading":
        spans = tuple(_on_one_line(_trimmed(list(_spans(node, (Mark("bold"),))))))
        if spans:
            yield Block("text", spans, heading=True)
    elif kind in {"fence", "code_block"}:
        code = _info_words(node) + node.content
        if not is_blank(code):
            yield Block("code", (Span(code.rstrip("\n")),), language=_language(node))
    elif kind in {"bullet_list", "ordered_list"}:
        yield from _list(node, depth)
    elif kind == "blockquote":
        yield from _quote(_children(node, 0))
    elif kind == "hr":
        yield Block("text", (Span(_RULE),))
    elif kind == "table":
        yield from _table(node)
    elif node.children:
        yield from _children(node, depth)
    elif node.content.strip():
        yield Block("text", (Span(node.content.strip("\n")),))


def _info_words(node: Node) -> str:
    """What stands after a fence is its language and attributes; whole sentences there are meant to be read."""
    info = node.info.strip() if node.type == "fence" else ""
    _, _, rest = info.partition(" ")
    attributes = not rest or (len(info) <= MAX_INFO_CHARS and bool(re.search(r"[={:\[]", rest)))
    return "" if not info or (_language(node) and attributes) else f"{info}\n"


def _language(node: Node) -> str:
    name = node.info.split()[0] if node.type == "fence" and node.info.strip() else ""
    return name if re.fullmatch(r"[\w+#.-]{1,32}", name) else ""


# --- Lists and quotes


def _list(node: Node, depth: int) -> Iterator[Block]:
    number = int(node.attrGet("start") or 1) if node.type == "ordered_list" else None
    if node.attrGet("start") == 0:
        number = 0
    indent = "  " * depth
    first = True
    for item in node.children:
        mark = f"{_BULLETS[min(depth, len(_BULLETS) - 1)]} " if number is None else f"{number}. "
        blocks = list(_children(item, depth + 1)) or [Block("text", ())]
        if blocks[0].kind != "text" or (item.children and item.children[0].type.endswith("_list")):
            blocks.insert(0, Block("text", ()))
        else:
            mark, blocks[0] = _task(mark, blocks[0])
        for position, block in enumerate(blocks):
            nested = block.gap == "\n"
            if position == 0:
                block = _prefixed(block, indent + mark, indent + "  ")
            elif block.kind == "text" and not nested:
                block = _prefixed(block, indent + "  ", indent + "  ")
            yield replace(block, gap="\n\n" if first and depth == 0 else "\n")
            first = False
        number = None if number is None else number + 1


def _task(mark: str, block: Block) -> tuple[str, Block]:
    """A task's box in place of its bullet."""
    found = _TASK.match(block.spans[0].text) if block.spans else None
    if not found:
        return mark, block
    rest = replace(block.spans[0], text=block.spans[0].text[found.end() :])
    box = "☐ " if found[1] == " " else "☑ "
    return (mark + box if mark[0].isdigit() else box), replace(block, spans=(rest, *block.spans[1:]))


def _prefixed(block: Block, first: str, others: str) -> Block:
    spans = tuple(replace(span, text=span.text.replace("\n", "\n" + others)) for span in block.spans)
    return replace(block, spans=(Span(first), *spans))


def _quote(blocks: Iterator[Block]) -> Iterator[Block]:
    """Quotes do not nest in chat; code in a quote stands by itself."""
    spans: list[Span] = []
    for block in blocks:
        if block.kind == "code":
            if spans:
                yield Block("quote", tuple(spans))
                spans = []
            yield block
        else:
            spans += [Span(block.gap), *block.spans] if spans else block.spans
    if spans:
        yield Block("quote", tuple(spans))


# --- Tables


def _table(node: Node) -> Iterator[Block]:
    rows = [[_cell(cell) for cell in row.children] for part in node.children for row in part.children]
    if not rows:
        return
    texts = [["".join(span.text for span in cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*texts, strict=False)]
    too_wide = sum(widths) + 2 * (len(widths) - 1) > MAX_TABLE_WIDTH
    if len(rows) > 1 and (too_wide or any(map(_leads_somewhere, (cell for row in rows for cell in row)))):
        yield from _records(rows)
        return
    lines = ["  ".join(cell + " " * (widths[i] - width(cell)) for i, cell in enumerate(row)).rstrip() for row in texts]
    lines.insert(1, "  ".join("─" * max(wide, 1) for wide in widths))
    yield Block("code", (Span("\n".join(lines)),))


def _records(rows: list[list[list[Span]]]) -> Iterator[Block]:
    """A table that is wide, or has links, as a line a row, each cell under its column's name."""
    for number, row in enumerate(rows[1:]):
        spans = [Span(f"{_BULLETS[0]} ")]
        for name, cell in zip(rows[0], row, strict=False):
            if cell:
                spans += [Span("; ")] if len(spans) > 1 else []
                named = [replace(span, marks=_with(span.marks, Mark("bold"))) for span in name]
                spans += [*named, Span(": "), *cell] if name else cell
        yield Block("text", tuple(_merged(spans)), gap="\n" if number else "\n\n")


def _cell(node: Node) -> list[Span]:
    """On one line, whatever it holds."""
    spans = [replace(span, text=re.sub(r"\s+", " ", span.text)) for span in _spans(node, ())]
    return _trimmed(_merged(spans))


def _leads_somewhere(cell: list[Span]) -> bool:
    """Whether a cell has a link whose address is not its words: as mere text it would be lost."""
    return any(mark.kind == "link" and mark.url != span.text for span in cell for mark in span.marks)


def width(text: str) -> int:
    """Columns that a text takes in a fixed-width font."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


# --- Spans


def _spans(node: Node, marks: tuple[Mark, ...]) -> Iterator[Span]:
    kind = node.type
    if kind == "text":
        yield from _text(node.content, marks)
    elif kind in {"softbreak", "hardbreak"}:
        yield Span("\n")
    elif kind == "code_inline":
        yield Span(node.content, _with(marks, Mark("code")))
    elif kind in {"link", "image"}:
        yield from _link(node, marks)
    elif node.children:
        inside = _with(marks, Mark(_STYLES[kind])) if kind in _STYLES else marks
        for child in node.children:
            yield from _spans(child, inside)
    elif node.content:
        yield Span(node.content, marks)


_STYLES: dict[str, Literal["bold", "italic", "strike"]] = {"strong": "bold", "em": "italic", "s": "strike"}


def _with(marks: tuple[Mark, ...], mark: Mark) -> tuple[Mark, ...]:
    return marks if any(mark.kind == there.kind for there in marks) else (*marks, mark)


def _text(content: str, marks: tuple[Mark, ...]) -> Iterator[Span]:
    position = 0
    for found in _CJK_BOLD.finditer(content):
        if found.start() > position:
            yield Span(content[position : found.start()], marks)
        yield Span(found[1] or found[2], _with(marks, Mark("bold")))
        position = found.end()
    if position < len(content):
        yield Span(content[position:], marks)


def _link(node: Node, marks: tuple[Mark, ...]) -> Iterator[Span]:
    """An image is a link with its description; what may not be a link is its label, and its path if it has one."""
    given = str(node.attrGet("href") or node.attrGet("src") or "")
    address = target(node)
    if node.markup == "autolink" and address.startswith("mailto:") and not _MAIL.fullmatch(words(node)):
        # What looks like an address only to CommonMark, such as <!subteam^S1|@team>.
        yield Span(f"<{words(node)}>", marks)
        return
    if address and len(address) <= MAX_URL_CHARS:
        inside = _with(marks, Mark("link", address))
        label = words(node)
        if node.type == "image" or is_blank(label):
            yield Span(address if is_blank(label) else label, inside)
            return
        for child in node.children:
            yield from _spans(child, inside)
        return
    label = words(node)
    path = "" if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", given) and not address else given
    yield Span(label, marks)
    if path and path != label and not path.startswith("#"):
        yield Span(f" ({path})" if label else path, marks)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """With what stands under the same marks in one."""
    found: list[Span] = []
    pieces: list[str] = []
    for span in spans:
        if found and found[-1].marks == span.marks:
            pieces.append(span.text)
            continue
        if found:
            found[-1] = Span("".join(pieces), found[-1].marks)
        found.append(span)
        pieces = [span.text]
    if found:
        found[-1] = Span("".join(pieces), found[-1].marks)
    return found


def _trimmed(spans: list[Span]) -> list[Span]:
    """Without white space at the ends."""
    while spans and not spans[0].text.strip():
        spans.pop(0)
    while spans and not spans[-1].text.strip():
        spans.pop()
    if spans:
        spans[0] = replace(spans[0], text=spans[0].text.lstrip())
        spans[-1] = replace(spans[-1], text=spans[-1].text.rstrip())
    return spans


def _on_one_line(spans: list[Span]) -> Iterator[Span]:
    return (replace(span, text=span.text.replace("\n", " ")) for span in spans)
