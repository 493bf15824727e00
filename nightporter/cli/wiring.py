"""Where the command line meets the other packages: each function is one call of them, and nothing else is.

What comes back is plain: dictionaries that are printed as they are with ``--json``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nightporter.cli import texts
from nightporter.errors import CommandError
from nightporter.settings import Settings


def journal_events(settings: Settings, principal: str, after: int, limit: int) -> list[dict[str, Any]]:
    """Events of a principal, oldest first: ``seq``, ``at`` (Unix seconds), ``kind``, ``turn``, ``body``."""
    raise CommandError(texts.not_part_of_this_build("The journal"))


def verify_journal(settings: Settings, principal: str) -> tuple[int, list[str]]:
    """Events checked, and a sentence for each fault; of all principals when ``principal`` is empty."""
    raise CommandError(texts.not_part_of_this_build("The journal"))


def volume_entries(settings: Settings, principal: str, path: str) -> list[dict[str, Any]]:
    """What is in a folder of a volume: ``path``, ``kind`` (``f``, ``d``, ``l``), ``size``, ``modified`` (seconds)."""
    raise CommandError(texts.not_part_of_this_build("The workspace"))


def volume_generations(settings: Settings, principal: str, limit: int) -> list[dict[str, Any]]:
    """Generations of a volume, newest first: ``number``, ``at`` (Unix seconds), ``files``, ``note``."""
    raise CommandError(texts.not_part_of_this_build("The workspace"))


def parsed_mails(files: Sequence[Path], bot: str) -> Iterator[dict[str, Any]]:
    """How each mail is read, as one mailbox would get them in order."""
    describe = _part("gateway.email.describe", "channel parse email").describe
    yield from describe(files)


def rendered_mail(markdown: str) -> dict[str, Any]:
    """The parts of the mail that this markdown becomes: ``chunks`` (its text), ``text`` and ``html``."""
    rendered = _part("gateway.email.render", "channel render email").render(markdown)
    return {"chunks": [rendered.text] if rendered.text else [], "text": rendered.text, "html": rendered.html}


def _part(module: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise CommandError(texts.not_part_of_this_build(what)) from error
