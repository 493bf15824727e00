"""What an engine is told at a heartbeat."""

from __future__ import annotations

from sandbox_runner.assignments import NOTHING_TO_SAY

ASKED = (
    "Heartbeat: nobody has written. Look after what `HEARTBEAT.md` in the workspace lists, where it is time for it. If "
    f"there is nothing to tell, answer with `{NOTHING_TO_SAY}` and nothing else: then nobody is disturbed."
)


def says(words: str) -> str:
    """The file, as data."""
    return f"HEARTBEAT.md says:\n\n{words}"
