"""What can be read, asked for or seen is listed once in code; docs/ must list the same."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.health import METRICS, PARTS
from router.commands import COMMANDS
from workspace_store.journal import KINDS

DOCS = Path(__file__).parents[2] / "docs"


def listed(page: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, (DOCS / "reference" / page).read_text(), re.MULTILINE))


def test_every_journal_kind_is_documented() -> None:
    assert listed("journal.md", r"^\| `([a-z]+\.[a-z_]+)`") == set(KINDS)


def test_every_chat_command_is_documented() -> None:
    assert listed("chat-commands.md", r"^\| `/([a-z]+)`") == set(COMMANDS)


def test_every_metric_is_documented() -> None:
    assert listed("http.md", r"^\| `(nightporter_[a-z_]+)`") == set(METRICS)


def test_the_operations_guide_says_what_each_alarm_means() -> None:
    guide = (DOCS / "how-to" / "operate.md").read_text()
    assert set(re.findall(r"`(nightporter_[a-z_]+)", guide)) == set(METRICS)
    assert set(re.findall(r"^\| `([a-z-]+)` \|", guide, re.MULTILINE)) == set(PARTS)


def test_links_between_pages_lead_somewhere() -> None:
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+\.md)", page.read_text()):
            assert (page.parent / target).exists(), f"{page} links to {target}"
