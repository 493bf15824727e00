"""A crontab as people write it (crontab(5)): read on the host, run in the sandbox."""

from __future__ import annotations

import re

from workspace_store.recurrence import BadTime, cron, zone_name
from workspace_store.timers import Line

MAX_LINES = 32
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_PERCENT = re.compile(r"(?<!\\)%")


def read(text: str) -> tuple[list[Line], list[str]]:
    """Its lines, and what is wrong with those that will not run."""
    lines: list[Line] = []
    problems: list[str] = []
    environment: dict[str, str] = {}
    zone = "UTC"
    for number, written in enumerate(text.splitlines(), 1):
        said = written.strip()
        if not said or said.startswith("#"):
            continue
        try:
            setting = _SETTING.fullmatch(said)
            if setting:
                name, value = setting[1], _unquoted(setting[2])
                if name in ("CRON_TZ", "TZ"):
                    zone = zone_name(value)
                environment[name] = value
                continue
            if len(lines) >= MAX_LINES:
                raise BadTime(f"there are {MAX_LINES} timers already")
            lines.append(_line(said, zone, environment))
        except BadTime as error:
            problems.append(f"crontab, line {number}, will not run: {error}")
    return lines, problems


def _line(said: str, zone: str, environment: dict[str, str]) -> Line:
    fields = 1 if said.startswith("@") else 5
    words = said.split(None, fields)
    if len(words) <= fields:
        raise BadTime("it has no command after its time")
    command = words[fields]
    if _PERCENT.search(command):
        raise BadTime("a % in a command is its standard input in cron; write \\% for the character")
    given = {name: value for name, value in environment.items() if name not in ("CRON_TZ", "MAILTO")}
    return Line(cron(" ".join(words[:fields]), zone), command.replace("\\%", "%"), given)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
