"""Check of the sandbox: a real one is started on this machine."""

from __future__ import annotations

from nightporter.doctor.check import Finding
from nightporter.settings import Settings


def sandbox(settings: Settings) -> Finding:
    """Whether commands can be isolated here; where not, tools are refused, and nothing runs on the host."""
    return Finding("sandbox", "warn", "It was not tried: this build has no backend.", "Install a complete Nightporter.")
