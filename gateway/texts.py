"""What a person reads on every platform alike."""

from __future__ import annotations

from agent.noise import as_shown
from agent.texts import code
from router.texts import file_too_large, files_too_large

__all__ = [
    "FETCH_TAKES_TOO_LONG",
    "WORKING",
    "duration",
    "file_not_sent",
    "file_too_large",
    "files_too_large",
    "growing",
    "running",
]

FETCH_TAKES_TOO_LONG = "its download took too long"
WORKING = "⏳ …"
TAIL_LINES = 8
TAIL_CHARACTERS = 600


def file_not_sent(name: str, reason: str) -> str:
    return f"I could not send {code(name)} here: {reason}. It is still in your workspace."


def running(what: str, seconds: float, output: str) -> str:
    """Markdown that names what runs, for how long already, and how its output ends."""
    name = " ".join(what.replace("`", "ˋ").split())
    head = f"⏳ `{name}` · {duration(seconds)}"
    tail = _tail(output)
    return f"{head}\n\n```\n{tail}\n```" if tail else head


def duration(seconds: float) -> str:
    """In steps, so that what is shown changes only where that says something."""
    if seconds < 120:
        step = 5 if seconds < 60 else 15
        return f"{int(seconds // step * step) or int(seconds)} s"
    return f"{int(seconds // 60)} min"


def growing(text: str, most: int) -> str:
    """An answer as far as it is written; of a long one, its end."""
    if len(text) <= most:
        return text
    tail = text[-most:]
    return "…\n" + tail[tail.find("\n") + 1 :]


def _tail(output: str) -> str:
    """The last lines as a terminal would show them, safe inside a fence."""
    said = [line.rstrip().replace("```", "ˋˋˋ") for line in as_shown(output) if line.strip()]
    return "\n".join(said[-TAIL_LINES:])[-TAIL_CHARACTERS:]
