"""What a stranger calls a file becomes one plain entry of a folder."""

from __future__ import annotations

import pytest

from workspace_store import names


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("a\nb\tc\0.txt", "abc.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("..", "file"),
        ("", "file"),
        ("bad\udc80name", "badname"),
        ("Müller  résumé.docx", "Müller résumé.docx"),
    ],
)
def test_a_strangers_name_becomes_one_entry(name: str, safe: str) -> None:
    assert names.safe_name(name) == safe


def test_a_long_name_keeps_its_extension() -> None:
    name = names.safe_name("ü" * 300 + ".tar")
    assert name.endswith("ü.tar")
    assert len(name.encode()) <= 200


def test_names_that_a_folder_blind_to_case_cannot_tell_apart_are_numbered() -> None:
    taken: set[str] = set()
    found = [names.unique_name(name, taken) for name in ("a.txt", "A.TXT", "a.txt", "a-2.txt", "README", "readme")]
    assert found == ["a.txt", "A-2.TXT", "a-3.txt", "a-2-2.txt", "README", "readme-2"]
