"""HTML mail to plain text: quotes become lines with `>`, signatures and hidden parts go, links keep their address.

The tree comes from selectolax; walking it ourselves keeps depth, time and memory bounded, and lets the rules for
plain text find attributions and header blocks in HTML mail too.
"""

from __future__ import annotations

import html as entities
import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from gateway.email import limits
from gateway.email.limits import Budget

MAX_NESTING = 1_000
"""Deeper HTML is not parsed: the parser's time grows with the square of the depth (100,000 levels take 30 s)."""

MAX_QUOTE_DEPTH = 20

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,20})")
_ANY_TAG = re.compile(r"<[/!?a-zA-Z][^<>]{0,2000}>")
_NOT_NESTING = frozenset(
    {
        "p",
        "li",
        "dd",
        "dt",
        "td",
        "th",
        "tr",
        "tbody",
        "thead",
        "tfoot",
        "br",
        "img",
        "hr",
        "input",
        "meta",
        "link",
        "option",
        "col",
        "area",
        "base",
        "wbr",
        "a",
    }
)
_BLOCKS = frozenset(
    {
        "p",
        "div",
        "ul",
        "ol",
        "dl",
        "dt",
        "dd",
        "table",
        "tr",
        "tbody",
        "thead",
        "tfoot",
        "section",
        "article",
        "header",
        "footer",
        "aside",
        "main",
        "nav",
        "center",
        "form",
        "fieldset",
        "address",
        "figure",
        "figcaption",
        "details",
        "summary",
        "pre",
        "body",
        "html",
        "blockquote",
    }
) | {f"h{level}" for level in range(1, 7)}
_PARAGRAPHS = frozenset({"p", "ul", "ol", "table", "pre", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "dl"})
_SKIPPED = frozenset(
    {
        "script",
        "style",
        "head",
        "title",
        "meta",
        "link",
        "noscript",
        "template",
        "iframe",
        "object",
        "embed",
        "svg",
        "math",
        "select",
        "textarea",
        "button",
        "-comment",
        "-doctype",
        "audio",
        "video",
        "canvas",
        "map",
        "o:p",
        "xml",
    }
)
_SIGNATURES = re.compile(
    r"(?:^|\s)(?:gmail_signature|gmail_signature_prefix|moz-signature|protonmail_signature_block|zmail_signature|mail_android_signature|"
    r"elided-signature|wisestamp_app_main_container|outlook-mobile-signature)(?:\s|$)"
)
_SIGNATURE_IDS = re.compile(
    r"^(?:x_)*(?:Signature|ms-outlook-mobile-signature|mail-editor-reference-message-signature|AppleMailSignature)$"
)
_QUOTES = re.compile(
    r"(?:^|\s)(?:x_)*(?:gmail_quote|gmail_extra_quote|yahoo_quoted|protonmail_quote|tutanota_quote|zmail_extra|ymail_android_quote|"
    r"moz-cite-prefix|moz-forward-container|WordSection1_quote|OutlookMessageHeader|moz-email-headers-table|quoted-text|front-blockquote|"
    r"freshdesk_quote|mailbird-quote|mb_quote|hs_reply|mcntmcnt_quote)(?:\s|$)"
)
_HIDDEN = re.compile(
    r"display\s{0,3}:\s{0,3}none|mso-hide\s{0,3}:\s{0,3}all|visibility\s{0,3}:\s{0,3}hidden|font-size\s{0,3}:\s{0,3}0(?:px|pt|em)?\s{0,3}(?:;|$)",
    re.IGNORECASE,
)
_SPACES = re.compile(r"[ \t\r\n\f]+")


def to_text(html: str, budget: Budget, *, structure: bool = True) -> str:
    """The text of `html`, as much of it as the budget allows.

    With `structure` the elements in which mail programs put quotes and signatures are used; without it only
    `<blockquote>` counts as a quote (some programs wrap whole new mails in those elements).
    """
    if len(html) > budget.html_chars:
        budget.note("html")
        html = html[: budget.html_chars]
    budget.html_chars -= len(html)
    if _nesting(html) > MAX_NESTING:
        return _crude(html)
    tree = LexborHTMLParser(html)
    writer = _Writer()
    root = tree.root
    if root is not None:
        _walk(root, writer, budget, structure=structure)
    return writer.text()


def _nesting(html: str) -> int:
    """How deep elements may nest, at most: a closing tag counts only if it closes the innermost open element."""
    stack: list[str] = []
    deepest = 0
    for found in _TAG.finditer(html):
        name = found.group(2).lower()
        if name in _NOT_NESTING:
            continue
        if not found.group(1):
            stack.append(name)
            deepest = max(deepest, len(stack))
            if deepest > MAX_NESTING:
                break
        elif stack and stack[-1] == name:
            stack.pop()
    return deepest


def _crude(html: str) -> str:
    """Tags cut out one by one: for HTML that nobody's mail program writes."""
    html = re.sub(r"(?i)<(?:br|/p|/div|/tr|/li)\b[^<>]{0,200}>", "\n", html)
    return entities.unescape(_ANY_TAG.sub("", html))


class _Writer:
    """Collects words into lines, with the quote depth of each."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.line: list[str] = []
        self.depth = 0
        self.preformatted = 0

    def word(self, text: str) -> None:
        if self.preformatted:
            first, *rest = text.split("\n", limits.MAX_LINES)
            self.line.append(first)
            for item in rest:
                self.newline()
                self.line.append(item)
            return
        text = _SPACES.sub(" ", text)
        if text.startswith(" ") and (not self.line or self.line[-1].endswith(" ")):
            text = text[1:]
        if text:
            self.line.append(text)

    def filled(self) -> bool:
        """Whether the line holds words."""
        return any(map(str.strip, self.line[:50]))

    def newline(self) -> None:
        """End the line, also an empty one."""
        if len(self.lines) > 2 * limits.MAX_LINES:
            self.line = []
            return
        content = "".join(self.line).rstrip()
        prefix = "> " * min(self.depth, MAX_QUOTE_DEPTH)
        self.lines.append((prefix + content).rstrip() if content or self.depth else "")
        self.line = []

    def block(self, *, paragraph: bool = False) -> None:
        """Begin on a fresh line, after a blank one for a paragraph."""
        if self.filled():
            self.newline()
        else:
            self.line = []
        if paragraph and self.lines and self.lines[-1].strip("> "):
            self.lines.append(("> " * min(self.depth, MAX_QUOTE_DEPTH)).rstrip())

    def text(self) -> str:
        self.block()
        return "\n".join(self.lines).strip("\n")


def _walk(root: LexborNode, writer: _Writer, budget: Budget, *, structure: bool) -> None:
    """Depth first without recursion: each entry is a node, and on the way out where in the line its words began."""
    stack: list[tuple[LexborNode, int | None]] = [(root, None)]
    visited = 0
    while stack:
        node, began = stack.pop()
        visited += 1
        if visited > 2 * limits.MAX_HTML_NODES or (visited % 512 == 0 and budget.late()):
            budget.note("html")
            break
        if began is not None:
            _leave(node, began, writer, structure=structure)
            continue
        tag = node.tag or ""
        if tag == "-text":
            writer.word(node.text_content or "")
            continue
        if tag in _SKIPPED or _dropped(node, structure=structure):
            continue
        if _enter(node, tag, writer, structure=structure):
            stack.append((node, len(writer.line)))
            stack.extend((child, None) for child in reversed(_children(node)))


def _children(node: LexborNode) -> list[LexborNode]:
    out: list[LexborNode] = []
    child = node.child
    while child is not None and len(out) < limits.MAX_HTML_NODES:
        out.append(child)
        child = child.next
    return out


def _attribute(node: LexborNode, name: str) -> str:
    return (node.attributes.get(name) or "")[:2000]


def _dropped(node: LexborNode, *, structure: bool) -> bool:
    if not node.attributes:
        return False
    if _HIDDEN.search(_attribute(node, "style")) or "hidden" in node.attributes:
        return True
    if not structure:
        return False
    return bool(
        _SIGNATURES.search(_attribute(node, "class"))
        or _SIGNATURE_IDS.match(_attribute(node, "id"))
        or _attribute(node, "data-smartmail") == "gmail_signature"
    )


def _is_quote(node: LexborNode, tag: str, *, structure: bool) -> bool:
    if tag == "blockquote":
        return True
    return structure and tag in {"div", "table", "span"} and bool(_QUOTES.search(_attribute(node, "class")))


def _enter(node: LexborNode, tag: str, writer: _Writer, *, structure: bool) -> bool:
    """Write what comes before a node's children; False if it has none worth a visit."""
    if tag == "br":
        writer.newline()
        return False
    if tag == "hr":
        writer.block()
        writer.word("-" * 30)
        writer.newline()
        return False
    if tag == "img":
        return False
    if tag in _BLOCKS or tag == "li":
        writer.block(paragraph=tag in _PARAGRAPHS)
    if _is_quote(node, tag, structure=structure):
        writer.block()
        writer.depth += 1
    if tag == "li":
        writer.word("- ")
    elif tag in {"td", "th"} and writer.filled():
        writer.line.append("  ")
    elif tag == "pre":
        writer.preformatted += 1
    return True


def _leave(node: LexborNode, began: int, writer: _Writer, *, structure: bool) -> None:
    tag = node.tag or ""
    if tag == "pre":
        writer.preformatted -= 1
    if tag == "a":
        _write_address(node, began, writer)
    if tag in _BLOCKS or tag == "li":
        writer.block(paragraph=tag in _PARAGRAPHS)
    if _is_quote(node, tag, structure=structure):
        writer.block()
        writer.depth -= 1


def _write_address(node: LexborNode, began: int, writer: _Writer) -> None:
    """A link's address after its words, unless they already say it."""
    address = _attribute(node, "href").strip()
    if not address.lower().startswith(("http://", "https://")):
        return
    label = "".join(writer.line[began:]).strip()
    if label and label.rstrip("/") not in address:
        writer.line.append(f" <{address}>")
