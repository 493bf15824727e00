"""What ``/history`` says of a generation."""

from __future__ import annotations

from typing import Any

from router import texts
from workspace_store.checkpoints import CommittedGeneration


def line(**given: Any) -> str:
    found = {
        "generation": 3,
        "manifest_digest": "",
        "turn": None,
        "note": "`$ ls`",
        "bytes": 0,
        "moving": False,
        "at": 0,
    }
    return texts.generation(CommittedGeneration(**{**found, **given}))


def test_files_are_counted_as_people_count() -> None:
    assert "1 file changed, 1 file in all" in line(files=1, changed=1, visible=1)
    assert "2 files changed, 10 files in all" in line(files=10, changed=3, visible=2)


def test_a_turn_that_changed_no_file_does_not_say_it_did() -> None:
    said = line(files=1, changed=1, visible=0)
    assert "only the state of your terminals changed, 1 file in all" in said
    assert "1 file changed" not in said
