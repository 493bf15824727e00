"""What a folding must not lose of a turn, found by rule: identifiers, decisions, constraints, promises, what is left to
do, verdicts of tests, changed files.

Deterministic, without a model, and linear in what is read: words and lines are looked at up to a bounded length. The
rules would rather take a sentence too many: a fact costs a row, a lost one costs trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.trajectory import Said

Kind = Literal["commitment", "decision", "constraint", "todo", "verdict", "file", "identifier"]
KINDS: tuple[Kind, ...] = ("commitment", "decision", "constraint", "todo", "verdict", "file", "identifier")
"""In the order in which they are told."""

WORD_CHARACTERS = 256
ADDRESS_CHARACTERS = 2048
WORDS_LOOKED_AT = 20_000
SENTENCE_CHARACTERS = 300
LINES_LOOKED_AT = 2000
MOST_FACTS = 2000

# Ids, hashes, addresses, paths, numbers with meaning. Matched within one word of bounded length, since a search for an
# address in a long run of letters costs the square of its length.
IDENTIFIER = re.compile(
    r"""https?://[^\s<>"')\]`]+ | [\w.+-]+@[\w-]+\.[\w.-]+
      | \b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b
      | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b | \b[0-9a-fA-F]{7,128}\b
      | (?:~|\.{1,2})?(?:/[\w.@+-]+)+ | \b\w[\w.-]*:\d{2,5}\b
      | \b[\w-]+(?:\.[A-Za-z][A-Za-z0-9]{0,9})+\b | \bv?\d+(?:\.\d+)+(?:[-+][\w.]+)?\b
      | \b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b | \b\d{4}-\d{2}-\d{2}\b
      | [#$€£]\d[\d.,]*\d\b | \b(?=[\w-]{0,63}\d)(?=[\w-]{0,63}[^\W\d_])\w[\w-]{3,62}\w\b | \b\d{4,}\b | :\d{2,5}\b""",
    re.VERBOSE,
)
# Every one of those has a sign, a digit, or looks like a hash; most words have none.
UNUSUAL = re.compile(r"[\d./:@_]|[0-9a-fA-F]{7}")
PORT = re.compile(r"\bports?\s+(?:is\s+|number\s+|no\.?\s+)?(\d{2,5})\b", re.IGNORECASE)
TRAILING = ".,;:!?…*_"

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-zß-ÿ]|[\"'*_(\[])")
LABELLED = re.compile(
    r"\W{0,8}(?P<label>commitments?|promises?|decisions?|decided|constraints?|rule|todos?|to-do|open)\W{0,4}[:=]\s*\S",
    re.IGNORECASE,
)
LABELS: dict[str, Kind] = {
    "commitment": "commitment", "promise": "commitment", "decision": "decision", "decided": "decision",
    "constraint": "constraint", "rule": "constraint", "todo": "todo", "to-do": "todo", "open": "todo",
}  # fmt: skip
# English, German, French, Spanish; other languages have labels and identifiers.
_CUES: dict[Kind, str] = {
    "commitment": r"\b(?:I(?:'ll| will| shall| promise| commit\b| am going to|'m going to)|you have my word|"
    r"ich (?:werde|verspreche)|je (?:vais|promets)|prometo|me comprometo|voy a)\b",
    "decision": r"\b(?:decided|decision|we(?:'ll| will| shall)? (?:use|go with|keep|ship)|let'?s (?:use|go with)|"
    r"going with|agreed|settled on|chose|chosen|entschieden|beschlossen|wir (?:nehmen|bleiben)|décidé|décision|"
    r"on (?:utilise|prend)|decidid[oa]|decidimos|acordad[oa])\b",
    "constraint": r"\b(?:must(?:n't)?|never|always|at most|at least|no more than|(?:not|isn't) allowed|forbidden|"
    r"required|do not|don't|only use|from now on|muss|müssen|darf|dürfen|niemals|immer|höchstens|mindestens|"
    r"ab jetzt|jamais|toujours|il faut|doit|nunca|siempre|debe)\b",
    "todo": r"\b(?:TODO|FIXME|to-do|still (?:to|needs?|has|have|open|missing)|remains?|remaining|next step|"
    r"follow[- ]up|remind|noch (?:zu|offen|nicht)|à faire|pendiente|falta)\b|\[ \]",
}
CUES = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _CUES.items()}
# Each cue holds one of these, in small letters: where none stands in a sentence, no search is needed.
STEMS: dict[Kind, tuple[str, ...]] = {
    "commitment": ("i'll", "i will", "i shall", "i promise", "i commit", "going to", "my word", "werde", "verspreche",
                   "je vais", "je promets", "promet", "voy a"),
    "decision": ("deci", " use", "go with", "keep", "ship", "going with", "agreed", "settled", "chose", "schieden",
                 "schlossen", "wir ", "déci", "on utilise", "on prend", "acord"),
    "constraint": ("must", "never", "always", "at most", "at least", "no more", "allowed", "forbid", "required",
                   "do not", "don't", "only use", "from now", "muss", "müss", "darf", "dürf", "niemals", "immer",
                   "höchst", "mindest", "ab jetzt", "jamais", "toujours", "il faut", "doit", "nunca", "siempre",
                   "debe"),
    "todo": ("todo", "to-do", "fixme", "still", "remain", "next step", "follow", "remind", "noch ", "faire",
             "pendiente", "falta", "[ ]"),
}  # fmt: skip
# A promise that outlasts its turn says when, or calls itself one.
LASTING = re.compile(
    r"\b(?:promise|commit|my word|until|when(?:ever)?|by|on|before|every|each|after|tomorrow|tonight|next|daily|weekly|"
    r"monthly|always|never|as soon as|once|verspreche|bis|jeden?|morgen|sobald|wenn|immer|nie|promets|demain|quand|"
    r"chaque|prometo|comprometo|mañana|cuando|cada)\b",
    re.IGNORECASE,
)
VERDICT = re.compile(
    r"\b\d+ (?:tests? )?(?:passed|failed|errors?|failures?|skipped)\b|\b(?:PASS(?:ED)?|FAIL(?:ED|URES?)?)\b|"
    r"\b[Ee]xit (?:code|status) \d+|\b[Tt]ests? (?:pass|fail|are (?:green|red))|"
    r"\b(?:[Bb]uild|[Dd]eploy\w*|[Cc]heck) (?:succeeded|failed|passed)|[✓✗✔✘]"
)
VERDICT_STEMS = ("pass", "fail", "error", "skipped", "exit ", "green", "red", "succeeded", "✓", "✗", "✔", "✘")
REDIRECTED = re.compile(r"(?<![<>0-9&-])>>?\s*([^\s;&|<>()'\"]+|'[^']+'|\"[^\"]+\")")
CHANGING = re.compile(
    r"(?:^|[;&|(]\s*|\bsudo\s+)(?:touch|rm|mv|cp|tee|mkdir|rmdir|chmod|chown|ln|patch|truncate|sed\s+-i\S*|"
    r"git\s+(?:add|mv|rm|checkout))\b([^\n;&|]*)",
    re.MULTILINE,
)
PATH_ARGUMENTS = ("path", "file", "to", "target")


@dataclass(frozen=True)
class Fact:
    """One thing said in a turn that must stay findable by its exact value."""

    kind: Kind
    value: str


def of_turn(turn: Sequence[Said]) -> list[Fact]:
    """The facts of a turn, each once, by kind; what people and the agent said comes before output of tools."""
    found: dict[Fact, None] = {}
    for said in sorted(turn, key=lambda said: said.role == "tool"):
        for fact in _of_said(said):
            found.setdefault(fact)
    facts = list(found)[:MOST_FACTS]
    return sorted(facts, key=lambda fact: KINDS.index(fact.kind))


def lasting(fact: Fact) -> bool:
    """Whether a promise outlasts the turn that it was made in."""
    return fact.kind == "commitment" and bool(LABELLED.match(fact.value) or LASTING.search(fact.value))


def identifiers(text: str) -> Iterator[str]:
    """Ids, hashes, addresses, paths and the like in the first words of a text; linear in its length."""
    for word in text.split(None, WORDS_LOOKED_AT)[:WORDS_LOOKED_AT]:
        if not UNUSUAL.search(word.rstrip(TRAILING)):
            continue
        most = ADDRESS_CHARACTERS if word.lower().lstrip("(<\"'[").startswith("http") else WORD_CHARACTERS
        for match in IDENTIFIER.findall(word[:most]):
            if value := match.rstrip(TRAILING):
                yield value
    looked_at = text[: WORDS_LOOKED_AT * 8]
    if "port" in looked_at.lower():
        yield from (f"port {port}" for port in PORT.findall(looked_at))


def _of_said(said: Said) -> Iterator[Fact]:
    if said.role == "tool":
        lines = said.text.splitlines()[:LINES_LOOKED_AT]
        yield from (Fact("verdict", _short(line)) for line in lines if VERDICT.search(line[:SENTENCE_CHARACTERS]))
    else:
        yield from _of_words(said)
    for path in _changed(said):
        yield Fact("file", path)
    for identifier in identifiers(said.words):
        yield Fact("identifier", identifier)
    for call in said.data.get("calls", ()):
        for value in call["arguments"].values():
            if isinstance(value, str):
                yield from (Fact("identifier", identifier) for identifier in identifiers(value))


def _of_words(said: Said) -> Iterator[Fact]:
    whole = " ".join(said.text.lower().split())
    told = {kind: cue for kind, cue in CUES.items() if any(stem in whole for stem in STEMS[kind])}
    if said.role != "assistant":
        # Only who is to keep a promise can make it.
        told.pop("commitment", None)
    verdicts = any(stem in whole for stem in VERDICT_STEMS)
    for sentence in sentences(said.text):
        label = LABELLED.match(sentence)
        if label:
            yield Fact(LABELS[label["label"].lower().removesuffix("s")], sentence)
            continue
        lowered = sentence.lower()
        for kind, cue in told.items():
            if any(stem in lowered for stem in STEMS[kind]) and cue.search(sentence):
                yield Fact(kind, sentence)
        if verdicts and any(stem in lowered for stem in VERDICT_STEMS) and VERDICT.search(sentence):
            yield Fact("verdict", sentence)


def sentences(text: str) -> Iterator[str]:
    """Sentences of a text, one line each, bounded in number and length."""
    for line in text.splitlines()[:LINES_LOOKED_AT]:
        for sentence in SENTENCE_END.split(line[: 8 * SENTENCE_CHARACTERS]):
            if short := _short(sentence):
                yield short


def _short(text: str) -> str:
    line = " ".join(text[: 2 * SENTENCE_CHARACTERS].split())
    return line if len(line) <= SENTENCE_CHARACTERS else f"{line[:SENTENCE_CHARACTERS]}…"


def _changed(said: Said) -> Iterator[str]:
    """Files that calls of a step change, as far as their words tell."""
    for call in said.data.get("calls", ()):
        arguments = call["arguments"]
        if command := arguments.get("command"):
            yield from _changed_by(str(command)[:WORDS_LOOKED_AT])
        elif any(word in call["name"] for word in ("write", "edit", "move", "delete")):
            yield from (str(arguments[name]) for name in PATH_ARGUMENTS if isinstance(arguments.get(name), str))


def _changed_by(command: str) -> Iterator[str]:
    words = list(REDIRECTED.findall(command))
    words += [word for match in CHANGING.findall(command) for word in match.split() if not word.startswith("-")]
    for word in words:
        bare = word.strip("'\"")
        if bare and not bare.startswith(("&", "/dev/", "$(", "s/")) and len(bare) <= WORD_CHARACTERS:
            yield bare
