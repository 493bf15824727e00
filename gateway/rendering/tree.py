"""The agent's markdown as a tree of nodes, read once for every channel. Raw HTML in it is text, never markup."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference
from markdown_it.tree import SyntaxTreeNode

MAX_MARKDOWN_CHARS = 500_000
"""Longer text is not read as markdown, but shown as it is."""

Node = SyntaxTreeNode

_SCHEMES = frozenset({"http", "https", "mailto"})


_CONTROLS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Nobody can see them, and no platform wants them: what is left of a terminal's colours, say."""


@functools.cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
    parser.block.ruler.at("reference", _reference, {"alt": []})
    return parser


def _reference(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """``[^1]: words`` is a footnote, which CommonMark would take for the target of a link, and hide."""
    if state.src.startswith("[^", state.bMarks[start] + state.tShift[start]):
        return False
    return reference(state, start, end, silent)


def is_blank(markdown: str) -> bool:
    """Whether there is nothing to send."""
    return not markdown.strip().strip("\u200b\ufeff")


def without_controls(text: str) -> str:
    return _CONTROLS.sub("", text)


def read_markdown(markdown: str, *, neutralise: Callable[[str], str] | None = None) -> Node:
    """The tree of CommonMark with tables and strikethrough. `neutralise` may change the text first, code included:
    chat channels disarm their broadcast tokens there.
    """
    if neutralise is not None:
        markdown = neutralise(markdown)
    return SyntaxTreeNode(_parser().parse(without_controls(markdown)))


def target(node: Node) -> str:
    """Where a link or image leads, if it is an http, https or mailto address; empty for any other scheme."""
    address = str(node.attrGet("href") or node.attrGet("src") or "")
    try:
        return address if urlsplit(address).scheme.lower() in _SCHEMES else ""
    except ValueError:
        return ""


def words(node: Node) -> str:
    """The plain words below a node."""
    return "".join(_words(node))


def _words(node: Node) -> Iterator[str]:
    if node.type in {"text", "code_inline", "fence", "code_block"}:
        yield node.content
    elif node.type == "softbreak":
        yield " "
    elif node.type == "hardbreak":
        yield "\n"
    else:
        for child in node.children:
            yield from _words(child)
