"""Runs all checks and prints what they find."""

from __future__ import annotations

import json
from collections.abc import Iterator

from nightporter.doctor import channels, machine, notes, stores
from nightporter.doctor.check import Finding
from nightporter.doctor.sandbox import sandbox
from nightporter.errors import FAILED, ConfigurationError
from nightporter.settings import load

MARKS = {"ok": "ok  ", "warn": "note", "fail": "FAIL"}


def findings() -> Iterator[Finding]:
    """All of it, in the order in which a start would meet it."""
    yield machine.python()
    try:
        settings = load()
    except ConfigurationError as error:
        for sentence in error.sentences:
            yield Finding("settings", "fail", sentence)
        return
    yield Finding("settings", "ok", f"Read from {settings.home} and the environment.")
    yield from machine.home_folder(settings)
    yield machine.token(settings)
    yield from machine.ports(settings)
    yield stores.database(settings)
    yield stores.redis(settings)
    yield stores.storage(settings)
    yield sandbox(settings)
    yield from channels.channels(settings)
    yield from notes.notes(settings)


def run(*, as_json: bool) -> int:
    """Print the findings; 1 when one of them keeps something from working."""
    found = []
    for finding in findings():
        found.append(finding)
        if not as_json:
            print(f"{MARKS[finding.state]}  {finding.name}: {finding.sentence}")
            if finding.remedy:
                print(f"      {finding.remedy}")
    if as_json:
        print(json.dumps([finding.as_json() for finding in found], ensure_ascii=False))
    return FAILED if any(finding.state == "fail" for finding in found) else 0
