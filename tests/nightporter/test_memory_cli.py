"""Memory on the command line: talk from elsewhere comes along once, whole, and is found; what is forgotten is gone."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from identity import users
from identity.users import Claim
from nightporter.cli import history_file, remembering
from nightporter.cli.history_file import BadLine
from nightporter.errors import CommandError
from workspace_store import imported, journal, memory
from workspace_store.database import Database

GOOD = {"id": "a", "time": "2024-05-01T10:00:00Z", "role": "user", "text": "the heron nests by the mill"}


@pytest.fixture
def house(sqlite: Database, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """A home on an empty database, with its owner."""
    monkeypatch.setenv("NIGHTPORTER_HOME", str(tmp_path))
    monkeypatch.setenv("NIGHTPORTER_DATABASE_URL", sqlite_url)
    return sqlite.write_now(lambda c: users.create(c, Claim("local", "", "owner", "owner", "token"), "admin")).id


def lines(tmp_path: Path, *rows: dict[str, Any] | str) -> Path:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def run(capsysbinary: pytest.CaptureFixture[bytes], function: Any, *words: Any, **more: Any) -> tuple[int, list[Any]]:
    capsysbinary.readouterr()
    code = function(*words, **more, as_json=True)
    return code, [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2024-05-01T10:00:00Z", 1714557600),
        ("2024-05-01T12:00:00+02:00", 1714557600),
        ("2024-05-01 10:00:00", 1714557600),
        ("2024-05-01", 1714521600),
        (1714557600, 1714557600),
        (1714557600.5, 1714557600.5),
        (1714557600000, 1714557600),
        ("1714557600", 1714557600),
    ],
)
def test_a_time_is_read_in_each_form(time: object, seconds: float) -> None:
    words = history_file.read(json.dumps({**GOOD, "time": time}).encode())
    assert words is not None
    assert words.at == round(seconds * 1e6)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"id": None}, "id"), ({"id": ""}, "id"), ({"id": True}, "id"), ({"id": "x" * 600}, "id"),
        ({"time": None}, "time"), ({"time": "soon"}, "time"), ({"time": -5}, "time"), ({"time": 1e300}, "time"),
        ({"time": []}, "time"), ({"role": "queen"}, "role"), ({"role": 5}, "role"), ({"text": ""}, "text"),
        ({"text": ["a"]}, "text"), ({"channel": 7}, "channel"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadLine, match=named):
        history_file.read(json.dumps({**GOOD, **change}).encode())


@pytest.mark.parametrize("line", [b"no json", b"[1]", b"\xff\xfe", b'{"id": "a"', b"[" * 100_000])
def test_a_line_that_is_none_is_told(line: bytes) -> None:
    with pytest.raises(BadLine):
        history_file.read(line)


def test_talk_from_elsewhere_comes_along_once_and_is_found(
    house: UUID, sqlite: Database, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    rows = [{**GOOD, "id": f"m{n}", "text": f"talk number{n} of otters", "channel": "elsewhere"} for n in range(1200)]
    path = lines(tmp_path, *rows)
    code, (report,) = run(capsysbinary, remembering.import_history, "owner", path)
    assert (code, report["imported"], report["bad"]) == (0, 1200, [])
    assert run(capsysbinary, remembering.import_history, "owner", path)[1][0]["known"] == 1200
    assert sqlite.read_now(lambda c: imported.count(c, house)) == 1200
    code, found = run(capsysbinary, remembering.search, "owner", "number777", 3)
    assert (code, found[0]["turn"], found[0]["text"]) == (0, "m777", "talk number777 of otters")
    assert found[0]["time"].startswith("2024-05-01T10:00")
    assert found[0]["score"] > 0
    assert len(run(capsysbinary, remembering.search, "owner", "otters", 7)[1]) == 7
    assert sqlite.read_now(lambda c: journal.verify(c, house))[1] == []
    assert run(capsysbinary, remembering.search, "owner", "walrus", 3) == (1, [])


def test_bad_lines_are_reported_by_number_and_the_others_taken(
    house: UUID, sqlite: Database, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    first = lines(tmp_path, GOOD, "not json", "", {**GOOD, "id": "b", "time": "soon"}, {**GOOD, "id": "c"}, GOOD,
                  {**GOOD, "text": "other words"})  # fmt: skip
    code, (report,) = run(capsysbinary, remembering.import_history, "owner", first)
    assert (code, report["imported"], report["known"]) == (1, 2, 1)
    assert [one["line"] for one in report["bad"]] == [2, 4, 7]
    mended = lines(tmp_path, GOOD, {**GOOD, "id": "b"}, {**GOOD, "id": "c"}, {**GOOD, "text": "other words"})
    code, (report,) = run(capsysbinary, remembering.import_history, "owner", mended)
    assert (code, report["imported"], report["known"]) == (1, 1, 2)
    assert [one["line"] for one in report["bad"]] == [4]
    found = sqlite.read_now(lambda c: memory.search(c, house, "heron", 9))
    assert {hit.body for hit in found} == {GOOD["text"]}


def test_notes_are_listed_forgotten_and_written_into_a_file(
    house: UUID, sqlite: Database, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    keep = sqlite.write_now(lambda c: memory.write_note(c, house, "k1", "the otter swims", None))
    go = sqlite.write_now(lambda c: memory.write_note(c, house, "k2", "the heron nests by the mill", None))
    listed = run(capsysbinary, remembering.listed, "owner", 10, ever=False)[1]
    assert [row["id"] for row in listed] == [str(go), str(keep)]
    path = tmp_path / "mine.zip"
    assert run(capsysbinary, remembering.export, "owner", path)[1][0]["notes"] == 2
    assert path.stat().st_mode & 0o077 == 0
    with zipfile.ZipFile(path) as archive:
        assert b"the heron nests" in archive.read("notes.jsonl")
    with pytest.raises(CommandError):
        remembering.export("owner", path, as_json=False)
    assert run(capsysbinary, remembering.forget, "owner", [go.hex[:8]], yes=True)[1][0]["notes"] == 1
    assert [row["id"] for row in run(capsysbinary, remembering.listed, "owner", 10, ever=True)[1]] == [str(keep)]
    assert run(capsysbinary, remembering.forget, "owner", ["otter", "swims"], yes=True)[1][0]["notes"] == 1
    with pytest.raises(CommandError):
        remembering.forget("owner", ["walrus"], yes=True, as_json=False)
