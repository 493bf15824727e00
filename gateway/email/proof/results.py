"""``Authentication-Results`` (RFC 8601) of one's own mail server: its verdict, and nobody else's.

A server puts its fields on top, and takes off what claims its name before (RFC 8601, 5): only the topmost of its name
count, up to the first field of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.email.proof.author import StrictMail

_COMMENT = re.compile(r"\([^()]*\)")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s;="]+|[=;]')
MAX_CHARS = 16_384


@dataclass(frozen=True)
class Result:
    """One method's result, such as ``dmarc=pass header.from=example.org``."""

    method: str
    result: str
    properties: Mapping[str, str]


def own_results(mail: StrictMail, authserv_id: str) -> list[Result] | None:
    """The results that the server ``authserv_id`` wrote; None if it wrote none."""
    found: list[Result] | None = None
    for field in mail.fields:
        read = _read(field.value, authserv_id) if field.key == "authentication-results" else None
        if read is not None:
            found = [*(found or []), *read]
        elif found is not None:
            break
    return found


def _read(value: bytes, authserv_id: str) -> Sequence[Result] | None:
    """The results of one field; None where another server wrote it or it cannot be read."""
    text = value[:MAX_CHARS].decode("utf-8", "replace")
    for _ in range(10):
        text, removed = _COMMENT.subn(" ", text)
        if not removed:
            break
    statements: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token == ";":
            statements.append([])
        else:
            statements[-1].append(token)
    head = [_plain(token) for token in statements[0]]
    # The version that may follow the name is 1, and there is no other yet (RFC 8601, 2.2).
    if not head or head[0].lower() != authserv_id.lower() or head[1:] not in ([], ["1"]):
        return None
    return [result for statement in statements[1:] if (result := _result(statement)) is not None]


def _result(tokens: list[str]) -> Result | None:
    pairs: dict[str, str] = {}
    at = 0
    while at + 2 < len(tokens):
        if tokens[at + 1] != "=":
            at += 1
            continue
        pairs.setdefault(tokens[at].lower(), _plain(tokens[at + 2]))
        at += 3
    if not pairs:
        return None
    method, result = next(iter(pairs.items()))
    return Result(method.partition("/")[0], result.lower(), {k: v for k, v in pairs.items() if k != method})


def _plain(token: str) -> str:
    return re.sub(r"\\(.)", r"\1", token[1:-1]) if token.startswith('"') and token.endswith('"') else token
