"""Invitations: the few facts of a calendar object (RFC 5545) that a person would read out."""

from __future__ import annotations

import re

from gateway.email import texts
from gateway.email.parsed import Invitation

_LINE = re.compile(r"([A-Za-z-]{1,40})((?:;[^:\n]{0,300})?):(.{0,2000})")


def invitation(text: str) -> Invitation | None:
    """The first event of an iCalendar object; None if it holds none. Reads at most 256 KiB."""
    unfolded = re.sub(r"\r?\n[ \t]", "", text[:262_144])
    found: dict[str, str] = {}
    inside = False
    for line in unfolded.splitlines()[:5000]:
        matched = _LINE.match(line)
        if not matched:
            continue
        name, params, value = matched.group(1).upper(), matched.group(2), matched.group(3).strip()
        if name == "BEGIN" and value.upper() in {"VEVENT", "VTODO"}:
            inside = True
        elif name == "END" and value.upper() in {"VEVENT", "VTODO"}:
            break
        elif name == "METHOD" or inside:
            zone = re.search(r"TZID=\"?([^;:\"]{1,80})", params)
            found.setdefault(
                name, _plain(value) + (f" {zone.group(1)}" if zone and name in {"DTSTART", "DTEND"} else "")
            )
    if not inside:
        return None
    return Invitation(
        method=found.get("METHOD", "").upper(),
        summary=found.get("SUMMARY", ""),
        starts=found.get("DTSTART", ""),
        ends=found.get("DTEND", ""),
        location=found.get("LOCATION", ""),
        organizer=re.sub(r"(?i)^mailto:", "", found.get("ORGANIZER", "")),
        uid=found.get("UID", ""),
    )


def describe(event: Invitation) -> str:
    """The event as a person would tell of it, a fact a line."""
    head = texts.INVITATION.get(event.method, texts.EVENT)
    lines = [f"{head}: {event.summary}" if event.summary else head]
    for name, label in texts.EVENT_FIELDS:
        value = getattr(event, name)
        if value:
            lines.append(f"{label}: {_time(value)}")
    return "\n".join(lines)


_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d{0,2}(Z?))?(.*)")


def _time(value: str) -> str:
    """A time of RFC 5545 (`20240305T091200Z`) as people write it; anything else as it is."""
    found = _TIME.fullmatch(value)
    if not found:
        return value
    year, month, day, hour, minute, utc, zone = found.groups()
    clock = f" {hour}:{minute}" if hour else ""
    return f"{year}-{month}-{day}{clock}{' UTC' if utc else zone}"


def _plain(value: str) -> str:
    return re.sub(r"\\([nN,;\\])", lambda found: " " if found.group(1) in "nN" else found.group(1), value).strip()
