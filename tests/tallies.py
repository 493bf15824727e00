"""What long tests count, added up over all workers and said at the end of the run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

_TALLIES = pytest.StashKey[Counter[str]]()


def tally(config: pytest.Config) -> Counter[str]:
    """Counts of this run, by what is counted."""
    return config.stash.setdefault(_TALLIES, Counter())


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["tally"] = dict(tally(session.config))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    tally(node.config).update(getattr(node, "workeroutput", {}).get("tally", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for what, number in sorted(tally(config).items()):
        terminalreporter.write_line(f"{what}: {number}")
