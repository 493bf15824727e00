"""``journal`` and ``workspace``: what is written down, read without a running server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from nightporter.cli import texts, wiring
from nightporter.errors import FAILED
from nightporter.settings import load

Row = dict[str, Any]
_BODY_WIDTH = 100


def journal_show(principal: str, after: int, limit: int, *, as_json: bool) -> int:
    """Print events, oldest first; with ``--json`` an object a line. What is left out is said on standard error."""
    # One more than asked for, to know whether there are more.
    found = wiring.journal_events(load(), principal, after, limit + 1)
    shown = found[:limit] if after else found[-limit:]
    if not after and len(found) > limit:
        print(texts.earlier_events(shown[0]["seq"] - 1), file=sys.stderr)
    _print(shown, _event, as_json=as_json)
    if after and len(found) > limit:
        print(texts.later_events(shown[-1]["seq"]), file=sys.stderr)
    if not as_json and any(_is_cut(row) for row in shown):
        print(texts.CUT_EVENTS, file=sys.stderr)
    return 0


def journal_verify(principal: str, *, as_json: bool) -> int:
    """Check the chain; 1 when it does not hold."""
    events, faults = wiring.verify_journal(load(), principal)
    if as_json:
        print(json.dumps({"events": events, "faults": faults, "holds": not faults}, ensure_ascii=False))
    else:
        for fault in faults:
            print(texts.plain(fault))
        print(texts.broken_chain(len(faults)) if faults else texts.chain_holds(events))
    return FAILED if faults else 0


def journal_egress(principal: str, limit: int, *, as_json: bool) -> int:
    """Print the effect ledger, oldest first; with ``--json`` an object a line."""
    return _print(wiring.effects(load(), principal, limit), _effect, as_json=as_json)


def workspace_ls(path: str, principal: str, *, as_json: bool) -> int:
    """Print a folder of a volume; with ``--json`` an object a line."""
    return _print(wiring.volume_entries(load(), principal, path), _entry, as_json=as_json)


def workspace_history(principal: str, limit: int, *, as_json: bool) -> int:
    """Print generations, newest first; with ``--json`` an object a line."""
    return _print(wiring.volume_generations(load(), principal, limit), _generation, as_json=as_json)


def principal_status(principal: str, *, as_json: bool) -> int:
    """Print what waits, runs and is kept of a user or room."""
    return _print([wiring.principal_status(load(), principal)], _status, as_json=as_json)


def rooms(after: float, limit: int, *, as_json: bool) -> int:
    """Print rooms, oldest first; with ``--json`` an object a line."""
    return _print(wiring.rooms(load(), after, limit), _room, as_json=as_json)


def _print(rows: list[Row], line: Callable[[Row], str], *, as_json: bool) -> int:
    for row in rows:
        text = json.dumps(row, ensure_ascii=False, default=str) if as_json else texts.plain(line(row))
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    return 0


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _body(row: Row) -> str:
    return json.dumps(row["body"], ensure_ascii=False, default=str) if row["body"] is not None else "(forgotten)"


def _is_cut(row: Row) -> bool:
    return len(_body(row)) > _BODY_WIDTH


def _event(row: Row) -> str:
    body = _body(row)
    shown = body if len(body) <= _BODY_WIDTH else f"{body[:_BODY_WIDTH]}…"
    return f"{row['seq']:>6}  {_time(row['at'])}  {row['kind']:<22} {shown}"


def _effect(row: Row) -> str:
    outcome = row["outcome"] or "-"
    bytes_carried = f"{row['bytes_out']:>9} out {row['bytes_in']:>11} in"
    reason = f"  {row['reason']}" if row["reason"] else ""
    place = f"{row['host']}:{row['port']}" if row["port"] else row["host"]
    return f"{_time(row['at'])}  {row['method']:<8} {place:<40} {row['status']:<9} {outcome:>4} {bytes_carried}{reason}"


def _status(row: Row) -> str:
    last = _time(row["last_turn"]) if row["last_turn"] is not None else "none yet"
    head = (
        f"{row['principal']}  waiting {row['waiting']}, sandbox {'awake' if row['awake'] else 'asleep'}, generation "
        f"{row['generation']}, last turn {last}"
    )
    briefing = row["briefing"]
    kinds = ("done", "planned", "promised", "waiting", "changed")
    return "\n".join([head, *(f"  {kind:<8}  {line}" for kind in kinds for line in briefing[kind])])


def _room(row: Row) -> str:
    return f"{row['principal']}  {_time(row['at'])}  {row['name']:<28} {row['title']}"


def _entry(row: Row) -> str:
    return f"{row['kind']}  {row['size']:>12}  {_time(row['modified'])}  {row['path']}"


def _generation(row: Row) -> str:
    return f"{row['number']:>6}  {_time(row['at'])}  {row['files']:>7} files  {' '.join(row['note'].split())}"
