"""What a note says something of, and which notes before it say otherwise of the same.

Deliberately narrow: only "X is Y" with values of one form is read. Two facts about one thing ("Ann is my sister", "Ann
is 42") contradict each other in nothing, and what is not sure stays beside the other; a model says by itself what a
note takes the place of.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workspace_store.memory import Note
from workspace_store.memory_index import plain

SAYING = re.compile(
    r"^(?P<subject>[^.!?\n:=]{2,80}?)\s*"
    r"(?:\s(?:is now|is|are now|are|lives? (?:in|at)|moved to|heißt|ist jetzt|ist|sind|est|sont|es|son)\s|[:=]\s?)"
    r"\s*(?P<value>[^\n]{1,120}?)\s*[.!]*$",
    re.IGNORECASE,
)
_ARTICLES = "the a an our der die das ein eine unser unsere le la les un une notre el los las nuestro"
ARTICLES = frozenset(_ARTICLES.split())
_NOT_SUBJECTS = "it this that there here he she they we you i es das er sie wir ich il elle ce"
NOT_SUBJECTS = frozenset(_NOT_SUBJECTS.split())
VALUE_WORDS = 4
SUBJECT_WORDS = 8


@dataclass(frozen=True)
class Saying:
    """``subject`` as notes are looked up by it; ``value`` as words."""

    subject: str
    value: tuple[str, ...]


def read(body: str) -> Saying | None:
    """The subject and value of a note that is one such sentence; None: it says something in another form."""
    match = SAYING.match(body.strip())
    if match is None:
        return None
    words = [word for word in plain(match["subject"]).split() if word not in ARTICLES]
    value = tuple(plain(match["value"]).split())
    if not words or len(words) > SUBJECT_WORDS or words[-1] in NOT_SUBJECTS or not value:
        return None
    return Saying(" ".join(words), value)


def subject_of(body: str) -> str:
    """What a note is found by when another says something of the same; empty where that cannot be told."""
    saying = read(body)
    return saying.subject if saying else ""


def contradicted(body: str, standing: Sequence[Note]) -> list[Note]:
    """Those of the notes of the same subject that cannot be true beside ``body``."""
    said = read(body)
    if said is None or len(said.value) > VALUE_WORDS:
        return []
    found = []
    for note in standing:
        before = read(note.body)
        if before is None or before.subject != said.subject or before.value == said.value:
            continue
        if len(before.value) == len(said.value) and _of_one_form(said, before):
            found.append(note)
    return found


def _of_one_form(one: Saying, other: Saying) -> bool:
    """Numbers against numbers; words against words where the subject names one thing (``deploy server``)."""
    digits = [any(any(map(str.isdigit, word)) for word in saying.value) for saying in (one, other)]
    if all(digits):
        return True
    if any(digits):
        return False
    same = sum(a == b for a, b in zip(one.value, other.value, strict=True))
    return len(one.subject.split()) > 1 and (len(one.value) == 1 or same == len(one.value) - 1)
