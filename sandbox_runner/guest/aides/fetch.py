"""Fetches one page through the egress proxy: one JSON request on standard input, one JSON answer on standard output.

Runs inside the sandbox: whether the host may be reached is decided outside of it, for every address that a redirect
leads to as for the first. HTML becomes plain text here, where a page that is built to hurt hurts nobody.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from http.client import HTTPResponse
    from typing import Any

SECONDS = 25.0
MOST_BYTES = 4 << 20
TEXT_CHARACTERS = 200_000
HIDDEN = {"script", "style", "noscript", "template", "svg", "head", "iframe", "object"}
BLOCKS = {
    "p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "ul", "ol", "table", "tr", "pre",
    "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "form", "figure", "dl", "dt", "dd", "br", "hr", "li",
}  # fmt: skip
VOID = {"br", "hr", "img", "input", "meta", "link", "source", "wbr", "area", "col", "embed", "track", "base", "param"}
HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0", re.IGNORECASE)


class Text(HTMLParser):
    """The words a person would see, a line a block, with the addresses of links."""

    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title = ""
        self._base = base
        self._hidden: list[str] = []
        self._in_title = False
        self._link = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "title" and not self.title:
            self._in_title = True
        hides = tag in HIDDEN or "hidden" in given or HIDING.search(given.get("style") or "") is not None
        if tag not in VOID and (self._hidden or hides):
            self._hidden.append(tag)
            return
        if self._hidden:
            return
        if tag in BLOCKS:
            self.parts.append("\n- " if tag == "li" else "\n")
        if tag in ("td", "th"):
            self.parts.append(" | ")
        if tag[0] == "h" and tag[1:].isdigit():
            self.parts.append("#" * int(tag[1:]) + " ")
        if tag == "a":
            self._link = given.get("href") or ""
        if tag == "img" and given.get("alt"):
            self.parts.append(f"[{given['alt']}]")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._hidden:
            if tag in self._hidden:
                while self._hidden.pop() != tag:
                    pass
            return
        if tag in BLOCKS:
            self.parts.append("\n")
        if tag == "a" and self._link:
            target = urljoin(self._base, self._link)
            if target.startswith(("http://", "https://")) and target != self._base:
                self.parts.append(f" ({target})")
            self._link = ""

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if not self._hidden:
            self.parts.append(data)

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self.parts).split("\n"))
        kept: list[str] = []
        for line in lines:
            if line or (kept and kept[-1]):
                kept.append(line)
        return "\n".join(kept).strip()


class SameSafety(urllib.request.HTTPRedirectHandler):
    """Follows to http and https alone, never from https back to http."""

    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        to = urlsplit(newurl)
        if to.scheme not in ("http", "https") or (req.type == "https" and to.scheme == "http"):
            raise urllib.error.HTTPError(newurl, code, f"it leads to {newurl}, which was not followed", headers, None)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def shown(response: HTTPResponse, url: str) -> dict[str, Any]:
    data = response.read(MOST_BYTES + 1)
    cut = len(data) > MOST_BYTES
    kind = response.headers.get_content_type()
    charset = response.headers.get_content_charset() or "utf-8"
    answer: dict[str, Any] = {"url": url, "status": response.status, "type": kind, "bytes": len(data), "cut": cut}
    if kind in ("text/html", "application/xhtml+xml"):
        parser = Text(url)
        parser.feed(decoded(data, charset))
        return {**answer, "title": " ".join(parser.title.split())[:200], **limited(parser.text(), cut)}
    if kind.startswith("text/") or kind.endswith(("json", "xml", "yaml", "javascript")):
        return {**answer, **limited(decoded(data, charset), cut)}
    if b"\0" not in data[:8192] and kind == "application/octet-stream":
        return {**answer, **limited(decoded(data, charset), cut)}
    return {**answer, "binary": True, "text": ""}


def decoded(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset, "replace")
    except LookupError:
        return data.decode("utf-8", "replace")


def limited(text: str, cut: bool) -> dict[str, Any]:
    return {"text": text[:TEXT_CHARACTERS], "cut": cut or len(text) > TEXT_CHARACTERS}


def refusal(error: urllib.error.HTTPError) -> dict[str, Any]:
    """What the proxy itself said, where it was the proxy: it answers in JSON of its own."""
    try:
        said = json.loads(error.read(65536))
    except (ValueError, RecursionError, OSError):
        said = None
    if isinstance(said, dict) and isinstance(said.get("reason"), str) and "error" in said:
        return {"refused": said["reason"], "how": str(said.get("how", "")), "approval": said.get("approval")}
    return {"refused": f"the server answered {error.code} {error.reason}"}


def main() -> None:
    given = json.loads(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
    url = given["url"]
    opener = urllib.request.build_opener(SameSafety())
    opener.addheaders = [
        ("User-Agent", "Nightporter"),
        ("Accept", "text/html, text/*, application/json;q=0.9, */*;q=0.5"),
    ]
    try:
        with opener.open(url, timeout=SECONDS) as response:
            answer = shown(response, response.geturl())
    except urllib.error.HTTPError as error:
        answer = refusal(error)
    except (OSError, ValueError) as error:
        answer = {"refused": str(getattr(error, "reason", error))}
    sys.stdout.buffer.write(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
