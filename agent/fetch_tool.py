"""Fetching a page: from inside the sandbox, through the egress proxy, which judges every host of it.

A host that is new is asked of the person by the proxy itself; the page is data of its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from agent import file_texts as texts
from agent import texts as agent_texts
from agent.file_tools import answer_of
from agent.tool import Arguments, Tool, ToolHost, ToolResult


class FetchArguments(Arguments):
    url: str = Field(min_length=1, max_length=4000, description="An http or https address.")


async def _fetch(host: ToolHost, call_id: str, given: Mapping[str, Any]) -> ToolResult:
    url = str(given["url"]).strip()
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable() and " " not in url
    except ValueError:
        fine = False
    if not fine:
        return ToolResult(agent_texts.refused(texts.bad_address(url)))
    result = await host.sandbox.assist(f"{host.turn.hex}:{call_id}", "fetch", {"url": url})
    answer = answer_of(result)
    if answer is None:
        return ToolResult(agent_texts.refused(texts.no_answer(result.status)))
    if "refused" in answer:
        # Touched: what the proxy has to say of it is told with the result.
        data = {"state_digest": result.state_digest}
        return ToolResult(texts.not_fetched(url, answer), data, touched=True, origin=texts.page_origin(url))
    text = texts.fetched(answer)
    return ToolResult(text, output=text, origin=texts.page_origin(str(answer.get("url") or url)))


FETCH = Tool("fetch", "Fetch a web page as text.", "pure", _fetch, True, FetchArguments)
