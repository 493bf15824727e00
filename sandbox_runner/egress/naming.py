"""Hosts that a person's own words name: asked for by them, and so not asked about again while that turn runs.

Only a host with its scheme, or with a port, counts (``https://example.org/x``, ``example.org:8443``): ``main.py`` and
``README.md`` are names that anybody may register. Quoted lines, code blocks and commands do not count: they are often
somebody else's words, put there by pasting.
"""

from __future__ import annotations

import re

from sandbox_runner.egress import names
from sandbox_runner.egress.names import BadHost
from sandbox_runner.egress.rules import WEB_PORTS

_FENCED = re.compile(r"^(`{3,}|~{3,}).*?(?:^\1`*~*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_QUOTED = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_COMMAND = re.compile(r"\s*(?:\$|[/!][a-z])", re.IGNORECASE)
_URL = re.compile(r"\b(?P<scheme>https?)://(?P<authority>[^\s/?#<>\"'`|\\)\]}]+)", re.IGNORECASE)
_WITH_PORT = re.compile(r"(?<![\w.@:/%-])(?P<authority>(?:[\w-]+\.)+[\w-]+:\d{1,5})(?![\w.:@-]*@)(?![\w-])")
_TRAILING = ".,;:!*_~"
_DEFAULT = {"http": 80, "https": 443}


def hosts_named(text: str) -> set[tuple[str, int]]:
    """(canonical host, port) of everything that ``text`` names; ambiguous ones name nothing."""
    if _COMMAND.match(text):
        return set()
    own = _QUOTED.sub(" ", _INLINE_CODE.sub(" ", _FENCED.sub(" ", text)))
    found: set[tuple[str, int]] = set()
    for match in _URL.finditer(own):
        _add(found, match["authority"].rstrip(_TRAILING), _DEFAULT[match["scheme"].lower()])
    for match in _WITH_PORT.finditer(own):
        _add(found, match["authority"], None)
    return found


def _add(found: set[tuple[str, int]], authority: str, default: int | None) -> None:
    try:
        host, port = names.split(authority, default)
    except BadHost:
        return
    found.add((host, port))
    if default is not None and port in WEB_PORTS:
        # Servers send http on to https; the host is the same.
        found.add((host, 443))
