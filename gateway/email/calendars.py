"""Invitations: the few facts of a calendar object (RFC 5545) that a person would read out."""

from __future__ import annotations

import re

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


def _plain(value: str) -> str:
    return re.sub(r"\\([nN,;\\])", lambda found: " " if found.group(1) in "nN" else found.group(1), value).strip()
