"""``memory`` and ``users import-history``: what is kept of a person's talk, as the one who runs this machine."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from agent.embeddings import choosing
from agent.embeddings.embedder import EmbedderAway
from nightporter.cli import history_file, memory_texts, texts, wiring
from nightporter.cli.administering import confirm
from nightporter.cli.files import new_private
from nightporter.cli.history_file import BadLine
from nightporter.errors import FAILED, CommandError
from nightporter.settings import Settings, load
from workspace_store import erasure, imported, keepsake, memory, principal
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.erasure import Target
from workspace_store.imported import Words
from workspace_store.memory import Hit
from workspace_store.memory_search import Vector, has_vectors, matches_all
from workspace_store.texts import forgot, target

BATCH = 500
FORGOTTEN_AT_ONCE = 50


def listed(user: str, limit: int, *, ever: bool, as_json: bool) -> int:
    """Notes, newest first; with ``--json`` an object a line."""

    def query(connection: Connection, owner: UUID) -> list[memory.Note]:
        return memory.notes(connection, owner, limit, ever=ever)

    rows = [memory.as_json(note) for note in _run(load(), query, user, "read_now")]
    lines = ((row, memory_texts.note(row["id"], row["text"], row["kind"], _moment(row["at"]))) for row in rows)
    _print(lines, as_json=as_json)
    return 0


def search(user: str, words: str, most: int, *, as_json: bool) -> int:
    """Hits with the turn or note they come from, score and time; with ``--json`` an object a line."""
    settings = load()

    meaning = _meaning(settings, user, words)

    def query(connection: Connection, owner: UUID) -> list[dict[str, Any]]:
        return hits(connection, owner, memory.search(connection, owner, words, most, meaning=meaning))

    found = _run(settings, query, user, "read_now")
    lines = ((row, memory_texts.hit(row["id"], row["kind"], row["text"], row["time"], row["score"])) for row in found)
    _print(lines, as_json=as_json)
    return 0 if found else FAILED


def _meaning(settings: Settings, user: str, words: str) -> Vector | None:
    """What the words mean, where there are vectors to compare with; without, search goes by words alone."""
    try:
        embedder = choosing.make(settings.memory, settings.engine, settings.home)
    except choosing.EmbedderNotAvailable as error:
        raise CommandError(str(error)) from error
    if embedder is None or not _run(settings, lambda c, owner: has_vectors(c, owner, embedder.model), user, "read_now"):
        return None

    async def embed() -> list[bytes | None]:
        try:
            return await embedder.embed([words])
        finally:
            await embedder.close()

    try:
        (vector,) = asyncio.run(embed())
    except EmbedderAway as error:
        sys.stderr.write(f"{memory_texts.by_words_alone(str(error))}\n")
        return None
    return Vector(embedder.model, vector) if vector is not None else None


def hits(connection: Connection, owner: UUID, found: Sequence[Hit]) -> list[dict[str, Any]]:
    """Hits for programs: ``turn`` or ``note`` names where each comes from; imported words have their own id in it."""
    scope = principal.scope(connection, owner)
    brought = imported.get(connection, scope, [UUID(hit.ref) for hit in found if hit.kind == "imported"])
    rows = []
    for hit in found:
        words = brought.get(UUID(hit.ref)) if hit.kind == "imported" else None
        row: dict[str, Any] = {
            "kind": hit.kind, "id": hit.ref, "turn": None, "note": None, "text": hit.body, "score": hit.score,
            "time": datetime.fromtimestamp(hit.at / 1e6, UTC).isoformat(), "at": hit.at / 1e6,
        }  # fmt: skip
        if words is not None:
            row |= {"turn": words.key, "role": words.role, "channel": words.channel}
        else:
            row[hit.kind] = hit.ref
        rows.append(row)
    return rows


def forget(user: str, what: Sequence[str], *, yes: bool, as_json: bool) -> int:
    """Show what would go, have it confirmed, and forget it."""
    settings = load()
    targets = _run(settings, lambda connection, owner: _meant(connection, owner, what), user, "read_now")
    if not targets:
        raise CommandError(memory_texts.nothing_to_forget())
    if not yes:
        confirm(memory_texts.about_to_forget(list(map(target, targets))))

    def erase(connection: Connection, owner: UUID) -> dict[str, int]:
        return erasure.forget(connection, owner, targets, by="the command line").to_json()

    gone = _run(settings, erase, user, "write_now")
    print(json.dumps(gone) if as_json else forgot(gone))
    return 0


def _meant(connection: Connection, owner: UUID, what: Sequence[str]) -> list[Target]:
    named = [erasure.named(connection, owner, word) for word in what]
    if all(named):
        if any(len(found) > 1 for found in named):
            raise CommandError(memory_texts.names_several())
        return erasure.with_origins(connection, owner, [found[0] for found in named])
    words = " ".join(what)
    found = memory.search(connection, owner, words, FORGOTTEN_AT_ONCE)
    meant = [erasure.of_hit(hit) for hit in found if matches_all(words, hit.body)]
    return erasure.with_origins(connection, owner, meant)


def export(user: str, file: Path, *, as_json: bool) -> int:
    """Write the archive; nobody else can read it."""
    settings = load()
    try:
        with new_private(file) as out:
            counts = _run(settings, lambda c, owner: keepsake.write(c, owner, out), user, "read_now")
    except FileExistsError as error:
        raise CommandError(texts.export_exists(file)) from error
    except OSError as error:
        raise CommandError(texts.export_failed(file, error.strerror or str(error))) from error
    print(
        json.dumps({"file": str(file), **counts})
        if as_json
        else memory_texts.exported_memory(file, sum(counts.values()))
    )
    return 0


def import_history(user: str, file: Path, *, as_json: bool) -> int:
    """Take every good line in; bad ones are reported by number, and exit code 1 says that there were some."""
    settings = load()
    owner = _run(settings, lambda connection, found: found, user, "read_now")
    report: dict[str, Any] = {"lines": 0, "imported": 0, "known": 0, "bad": []}
    with open(file, "rb") as lines:
        _import(settings, owner, lines, report)
    bad = sorted(report["bad"], key=lambda one: one["line"])
    for one in bad:
        sys.stderr.write(f"{memory_texts.bad_line(one['line'], one['reason'])}\n")
    print(
        json.dumps({**report, "bad": bad})
        if as_json
        else memory_texts.imported(report["imported"], report["known"], len(bad))
    )
    return FAILED if bad else 0


def _run(settings: Settings, query: Callable[[Connection, UUID], Any], user: str, door: str) -> Any:
    """As ``wiring.run``, for whoever a merged user's things belong to now."""

    def asked(connection: Connection, found: UUID) -> Any:
        return query(connection, principal.root(connection, found))

    return wiring.run(settings, asked, user, door)


def _import(settings: Settings, owner: UUID, lines: Iterable[bytes], report: dict[str, Any]) -> None:
    """Batch by batch, each a short transaction: whatever runs meanwhile is not held up."""
    database = Database(settings.database_url)
    batch: dict[str, tuple[int, Words]] = {}

    def bad(number: int, reason: str) -> None:
        report["bad"].append({"line": number, "reason": reason})

    def take() -> None:
        words = [each for _, each in batch.values()]
        taken = database.write_now(lambda connection: imported.take(connection, owner, words))
        report["imported"] += taken.new
        report["known"] += taken.known - len(taken.other)
        for key in taken.other:
            bad(batch[key][0], memory_texts.other_words(key))
        batch.clear()

    try:
        for number, line in enumerate(lines, 1):
            report["lines"] = number
            try:
                words = history_file.read(line)
            except BadLine as error:
                bad(number, str(error))
                continue
            if words is None:
                continue
            if words.key in batch:
                if batch[words.key][1] == words:
                    report["known"] += 1
                else:
                    bad(number, memory_texts.other_words(words.key))
                continue
            batch[words.key] = number, words
            if len(batch) >= BATCH:
                take()
        if batch:
            take()
    except DatabaseUnavailable as error:
        raise CommandError(texts.database_unavailable(str(error))) from error
    finally:
        database.close()


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def _print(rows: Iterable[tuple[dict[str, Any], str]], *, as_json: bool) -> None:
    for row, line in rows:
        text = json.dumps(row, ensure_ascii=False) if as_json else texts.plain(line)
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
