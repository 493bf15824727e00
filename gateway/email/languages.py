"""Words that mail programs write in their users' languages, read from `languages.toml` beside this module.

Lists only; `quotes`, `signatures` and `kinds` say how they are used.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files

_WORDS: dict[str, list[str]] = tomllib.loads((files(__package__) / "languages.toml").read_text(encoding="utf-8"))

WROTE: tuple[str, ...] = tuple(_WORDS["wrote"])
OPENERS: tuple[str, ...] = tuple(_WORDS["openers"])
FROM: tuple[str, ...] = tuple(_WORDS["from"])
DATE: tuple[str, ...] = tuple(_WORDS["date"])
TO: tuple[str, ...] = tuple(_WORDS["to"])
SUBJECT: tuple[str, ...] = tuple(_WORDS["subject"])
ORIGINAL: tuple[str, ...] = tuple(_WORDS["original"])
FORWARDED: tuple[str, ...] = tuple(_WORDS["forwarded"])
ORIGINAL_STEMS: tuple[str, ...] = tuple(_WORDS["original_stems"])
FORWARD_STEMS: tuple[str, ...] = tuple(_WORDS["forward_stems"])
MESSAGE_STEMS: tuple[str, ...] = tuple(_WORDS["message_stems"])
QUOTING: tuple[str, ...] = tuple(word + " " for word in _WORDS["quoting"])
REPLY_PREFIXES: tuple[str, ...] = tuple(_WORDS["reply_prefixes"])
FORWARD_PREFIXES: tuple[str, ...] = tuple(_WORDS["forward_prefixes"])
AUTO_SUBJECTS: tuple[str, ...] = tuple(_WORDS["auto_subjects"])
AWAY_SUBJECTS: tuple[str, ...] = tuple(_WORDS["away_subjects"])
BOUNCE_SUBJECTS: tuple[str, ...] = tuple(_WORDS["bounce_subjects"])
SENT_FROM: tuple[str, ...] = tuple(_WORDS["sent_from"])
DISCLAIMER: tuple[str, ...] = tuple(_WORDS["disclaimer"])
BANNER: tuple[str, ...] = tuple(_WORDS["banner"])
