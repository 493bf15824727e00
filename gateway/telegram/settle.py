"""Several updates that are one message: the items of an album, the halves of a paste that the client cut.

Only what shows a sign that more is coming waits, and never long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.telegram.entities import utf16_length
from gateway.telegram.messages import decide
from gateway.telegram.parsed import Parsed

SPLIT_UTF16 = 4000
"""Clients cut pastes at 4,096 units or at the last blank before."""
HALVES_SECONDS = 2
QUIET_SECONDS = 0.4
MOST_SECONDS = 3.0


def expects_more(parsed: Parsed) -> bool:
    """Whether another update may belong to the same message."""
    return parsed.action == "message" and bool(parsed.group or _is_cut(parsed))


def join(waiting: Iterable[Parsed]) -> list[Parsed]:
    """Messages of updates in their order; albums and pastes as one, under the key of their first update."""
    found: list[Parsed] = []
    ends: list[Parsed] = []
    for parsed in waiting:
        for position, end in enumerate(ends):
            if _belongs(end, parsed):
                found[position] = _together(found[position], parsed)
                ends[position] = parsed
                break
        else:
            found.append(parsed)
            ends.append(parsed)
    return [decide(parsed, album_addressed=False) for parsed in found]


def _belongs(before: Parsed, after: Parsed) -> bool:
    if before.action != "message" or after.action != "message":
        return False
    if (before.channel, before.user, before.thread) != (after.channel, after.user, after.thread):
        return False
    if before.group or after.group:
        return before.group == after.group
    close = 0 <= after.sent_at - before.sent_at <= HALVES_SECONDS
    return _is_cut(before) and close and after.message_id > before.message_id and not after.forwarded


def _is_cut(parsed: Parsed) -> bool:
    return not parsed.files and utf16_length(parsed.text or "") >= SPLIT_UTF16


def _together(first: Parsed, second: Parsed) -> Parsed:
    known = {file.id for file in first.files}
    return replace(
        first,
        text="\n".join(filter(None, (first.text, second.text))),
        files=(*first.files, *(file for file in second.files if file.id not in known)),
        context=first.context or second.context,
        needs_group=first.needs_group and second.needs_group,
    )
