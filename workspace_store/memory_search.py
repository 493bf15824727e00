"""Search in memory: by words and by meaning, the two joined by rank, with a little for what is new and well founded.

The scope is in every query itself: no search can return another principal's words, but those merged into it are its
own. A turn that is not in the index yet is looked through as it is, so that what was just said is found.
"""

from __future__ import annotations

import heapq
import math
import operator
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, select, text

from workspace_store import principal, sensitive
from workspace_store.memory_index import (
    UNSPACED,
    fresh_turns,
    kind_word,
    models_of,
    owner_word,
    plain,
    vector,
)
from workspace_store.stop_words import STOP_WORDS

KINDS = ("note", "turn", "imported")
QUERY_WORDS = 32
WORD_CHARACTERS = 200
"""PostgreSQL takes no word above two kilobytes."""
CANDIDATES = 60
POSTGRESQL_MATCHES = 400
FRESH_TURNS = 32
VECTORS_LOOKED_AT = 50_000
RANK_CONSTANT = 60
"""Of reciprocal-rank fusion (Cormack et al., 2009)."""
NEWNESS = 0.03
"""What being the newest of the candidates counts, where being the best by words counts one."""
QUALITY = {"note": 1.03, "turn": 1.0, "imported": 1.0}
"""A note was made to be found; what is in it is also in the turn it was made in."""
LEAST_ALIKE = 0.25
"""Cosine under which two texts have nothing to do with each other."""


@dataclass(frozen=True)
class Vector:
    """What a query means to ``model``; ``values`` as in ``MemoryVectorRow``."""

    model: str
    values: bytes


@dataclass(frozen=True)
class Hit:
    """``kind``: ``note``, ``turn`` or ``imported``; ``ref``: the id of it. Best first, by ``score``."""

    kind: str
    ref: str
    body: str
    at: int
    score: float = 0.0


@dataclass(frozen=True)
class _Term:
    """A word of a query: as it is, or its beginning where it may end otherwise."""

    word: str
    begins: bool

    def matches(self, words: Collection[str]) -> bool:
        return any(word.startswith(self.word) for word in words) if self.begins else self.word in words


def search(
    connection: Connection,
    owner: UUID,
    query: str,
    limit: int = 5,
    *,
    meaning: Vector | None = None,
    kinds: Collection[str] = KINDS,
) -> list[Hit]:
    """The best matches among the words of the owner and of those merged into them."""
    scope = principal.scope(connection, owner)
    words = plain(query).split()
    terms = _terms([word for word in words if word not in STOP_WORDS] or words)
    found = _by_words(connection, scope, terms, kinds)
    if not found and meaning is None:
        # Nothing holds what was asked for; perhaps something holds how it was asked.
        found = _by_words(connection, scope, _terms(words), kinds)
    lists = [(1.0, found)]
    if "turn" in kinds:
        lists.append((1.0, _fresh(connection, scope, terms)))
    if meaning is not None:
        lists.append((1.0, _by_meaning(connection, scope, meaning, kinds)))
    return _fuse(lists)[:limit]


def within(hits: Iterable[Hit], characters: int) -> list[Hit]:
    """The first hits whose words fit, the last one cut to what is left."""
    kept: list[Hit] = []
    for hit in hits:
        if characters < len(hit.body):
            if characters >= 200:
                kept.append(replace(hit, body=f"{hit.body[:characters].rstrip()}…"))
            break
        characters -= len(hit.body)
        kept.append(hit)
    return kept


def matches_all(query: str, body: str) -> bool:
    """Whether a text holds every word of a query that says something."""
    words = plain(query).split()
    held = frozenset(plain(body).split())
    return all(term.matches(held) for term in _terms([word for word in words if word not in STOP_WORDS] or words))


def has_vectors(connection: Connection, owner: UUID, model: str) -> bool:
    """Whether a query's meaning is worth computing."""
    return model in models_of(connection, principal.scope(connection, owner))


# Words


def _terms(words: Sequence[str]) -> list[_Term]:
    found = [_Term(*_stem(word)) for word in dict.fromkeys(words) if len(word) <= WORD_CHARACTERS]
    return found[:QUERY_WORDS]


def _stem(word: str) -> tuple[str, bool]:
    """What other forms of a word begin with; short words, numbers and names with digits are only themselves."""
    if len(word) < 4 or not word.isalpha() or UNSPACED.match(word):
        return word, False
    if not word.isascii():
        return (word[:-2] if len(word) > 6 else word[:-1]), True
    for ending in ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "ed", "er", "es", "s", "y", "e"):
        bare = word.removesuffix(ending)
        if bare != word and len(bare) >= 4:
            # planning, planned: plan
            return (bare[:-1] if bare[-1] == bare[-2] and len(bare) > 4 else bare), True
    return word, True


def _by_words(
    connection: Connection, scope: Sequence[UUID], terms: Sequence[_Term], kinds: Collection[str]
) -> list[Hit]:
    if not terms:
        return []
    if connection.dialect.name == "sqlite":
        return _sqlite(connection, scope, terms, kinds)
    return _postgresql(connection, scope, terms, kinds)


def _sqlite(connection: Connection, scope: Sequence[UUID], terms: Sequence[_Term], kinds: Collection[str]) -> list[Hit]:
    whose = " OR ".join(owner_word(one) for one in scope)
    which = "" if len(kinds) == len(KINDS) else f"whose : ({' OR '.join(map(kind_word, kinds))}) AND "
    asked = " OR ".join(f'"{term.word}"{" *" if term.begins else ""}' for term in terms)
    sql = text("""SELECT e.kind, e.ref, s.body, e.at
                  FROM memory_search s JOIN memory_entry e ON e.id = s.rowid
                  WHERE memory_search MATCH :match AND e.principal IN :scope
                  ORDER BY bm25(memory_search, 1.0, 0.0, 1.0), e.at DESC LIMIT :most""")
    match = f"whose : ({whose}) AND {which}{{body spread}} : ({asked})"
    given = {"match": match, "scope": [one.hex for one in scope], "most": CANDIDATES}
    return _hits(connection.execute(sql.bindparams(bindparam("scope", expanding=True)), given))


def _postgresql(
    connection: Connection, scope: Sequence[UUID], terms: Sequence[_Term], kinds: Collection[str]
) -> list[Hit]:
    """Its own ranking does not know that a rare word says more than a frequent one: which words match comes along."""
    asked = {f"w{n}": f"'{term.word}'{':*' if term.begins else ''}" for n, term in enumerate(terms)}
    whose = " | ".join(f"'{owner_word(one)}'" for one in scope)
    which = " | ".join(f"'{kind_word(kind)}'" for kind in kinds)
    columns = ", ".join(f"s.words @@ to_tsquery('simple', :{name}) AS {name}" for name in asked)
    sql = text(f"""SELECT e.kind, e.ref, s.body, e.at, {columns},
                          ts_rank(s.words, to_tsquery('simple', :words), 1) AS rank
                   FROM memory_search s JOIN memory_entry e ON e.id = s.entry
                   WHERE s.words @@ to_tsquery('simple', :match) AND e.principal IN :scope
                   ORDER BY rank DESC, e.at DESC LIMIT :most""")
    words = " | ".join(asked.values())
    given = {"words": words, "match": f"({whose}) & ({which}) & ({words})", "scope": list(scope), **asked}
    rows = connection.execute(
        sql.bindparams(bindparam("scope", expanding=True)), {**given, "most": POSTGRESQL_MATCHES}
    ).all()
    weights = {name: _rarity(len(rows), sum(getattr(row, name) for row in rows)) for name in asked}

    def by_weight(row: Any) -> tuple[float, int]:
        return -sum(weight for name, weight in weights.items() if getattr(row, name)) - row.rank, -row.at

    return _hits(sorted(rows, key=by_weight)[:CANDIDATES])


def _rarity(count: int, having: int) -> float:
    return math.log(1 + (count - having + 0.5) / (having + 0.5))


def _hits(rows: Iterable[Any]) -> list[Hit]:
    return [Hit(row.kind, row.ref, row.body, int(row.at)) for row in rows]


def _fresh(connection: Connection, scope: Sequence[UUID], terms: Sequence[_Term]) -> list[Hit]:
    """Turns that hold any of the words and are not in the index yet."""
    if not terms:
        return []
    found = []
    for turn, words, at in fresh_turns(connection, scope, FRESH_TURNS):
        count = sum(term.matches(frozenset(plain(words).split())) for term in terms)
        if count:
            found.append((count, Hit("turn", turn, sensitive.redacted(words), at)))
    return [hit for _, hit in sorted(found, key=lambda one: -one[0])]


# Meaning


def _by_meaning(connection: Connection, scope: Sequence[UUID], asked: Vector, kinds: Collection[str]) -> list[Hit]:
    """The entries whose vectors point where the query's does."""
    near = _nearest(connection, scope, asked)
    if not near:
        return []
    key = "rowid" if connection.dialect.name == "sqlite" else "entry"
    sql = text(f"""SELECT e.id, e.kind, e.ref, s.body, e.at FROM memory_entry e JOIN memory_search s ON s.{key} = e.id
                   WHERE e.id IN :ids AND e.principal IN :scope AND e.kind IN :kinds""")
    sql = sql.bindparams(*(bindparam(name, expanding=True) for name in ("ids", "scope", "kinds")))
    whose = [one.hex for one in scope] if connection.dialect.name == "sqlite" else list(scope)
    rows = connection.execute(sql, {"ids": list(near), "scope": whose, "kinds": list(kinds)}).all()
    return _hits(sorted(rows, key=lambda row: -near[row.id]))


def _nearest(connection: Connection, scope: Sequence[UUID], asked: Vector) -> dict[int, float]:
    """Entry → cosine, of the nearest ones; of the newest vectors where there are very many."""
    query = (
        select(vector.c.entry, vector.c.vector)
        .where(vector.c.principal.in_(scope), vector.c.model == asked.model)
        .order_by(vector.c.entry.desc())
        .limit(VECTORS_LOOKED_AT)
    )
    best: list[tuple[float, int]] = []
    rows = connection.execute(query, execution_options={"yield_per": 2000})
    for part in rows.partitions():
        whole = [row for row in part if len(row.vector) == len(asked.values)]
        alike = cosines(asked.values, [row.vector for row in whole])
        pairs = ((value, row.entry) for value, row in zip(alike, whole, strict=True) if value >= LEAST_ALIKE)
        best = heapq.nlargest(CANDIDATES, [*best, *pairs])
    return {int(identifier): value for value, identifier in best}


def cosines(one: bytes, others: Sequence[bytes]) -> list[float]:
    """Of vectors of length one; by numpy where it is installed."""
    if not others:
        return []
    try:
        import numpy as np
    except ImportError:
        mine = unpacked(one)
        return [sum(map(operator.mul, mine, unpacked(other))) for other in others]
    matrix = np.frombuffer(b"".join(others), "<f2").reshape(len(others), -1).astype(np.float32)
    return [float(value) for value in matrix @ np.frombuffer(one, "<f2").astype(np.float32)]


def packed(values: Sequence[float]) -> bytes:
    """A vector as it is kept, of length one. Raises ValueError for one that points nowhere."""
    length = math.sqrt(sum(value * value for value in values))
    if not length or not math.isfinite(length):
        raise ValueError("the vector has no direction")
    return struct.pack(f"<{len(values)}e", *(value / length for value in values))


def unpacked(data: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(data) // 2}e", data)


# Fusion


def _fuse(lists: Sequence[tuple[float, Sequence[Hit]]]) -> list[Hit]:
    """Reciprocal-rank fusion: a thing counts by its best entry in each list, then for how new it is."""
    scores: dict[str, float] = {}
    shown: dict[str, Hit] = {}
    for weight, hits in lists:
        rank = 0
        seen = set()
        for hit in hits:
            if hit.ref in seen:
                continue
            seen.add(hit.ref)
            rank += 1
            scores[hit.ref] = scores.get(hit.ref, 0.0) + weight / (RANK_CONSTANT + rank)
            shown.setdefault(hit.ref, hit)
    newest = sorted(shown.values(), key=lambda hit: -hit.at)
    for rank, hit in enumerate(newest, 1):
        scores[hit.ref] = (scores[hit.ref] + NEWNESS / (RANK_CONSTANT + rank)) * QUALITY.get(hit.kind, 1.0)
    best = sorted(shown.values(), key=lambda hit: (-scores[hit.ref], -hit.at))
    return [replace(hit, score=round(scores[hit.ref], 6)) for hit in best]
