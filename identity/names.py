"""Display names as data: what a platform lets people call themselves, made harmless before an agent or a person reads
it. A name never decides who somebody is; the UUID beside it does.
"""

from __future__ import annotations

import re
import unicodedata
from uuid import UUID

MOST_CHARACTERS = 60
NAMELESS = "somebody"

# What could end the phrase a name stands in, open another, or read as markup or a mention.
_MARKS = re.compile(r"[\[\](){}<>`*_~|\\\"'“”«»#@:;]")


def harmless(display: str) -> str:
    """A display name of printable letters on one line: no control or format characters, no brackets, no marks.

    ``somebody`` where nothing is left of it.
    """
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in display[: 8 * MOST_CHARACTERS])
    name = " ".join(_MARKS.sub(" ", unicodedata.normalize("NFC", kept)).split())
    return name[:MOST_CHARACTERS].strip() or NAMELESS


def speaker(display: str, user: UUID) -> str:
    """Who speaks, as the agent is told: ``Ann (0d2c…-…)``."""
    return f"{harmless(display)} ({user})"
