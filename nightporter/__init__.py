"""The front of the house: settings, command line, supervisor and the public Python API.

What a team writes an agent with is imported when it is asked for: ``from nightporter import Agent, tool``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nightporter.authoring.words import Agent as Agent
    from nightporter.authoring.words import Ask as Ask
    from nightporter.authoring.words import Call as Call
    from nightporter.authoring.words import Context as Context
    from nightporter.authoring.words import Ran as Ran
    from nightporter.authoring.words import Refuse as Refuse
    from nightporter.authoring.words import tool as tool

__version__ = "0.1.0"

__all__ = ["Agent", "Ask", "Call", "Context", "Ran", "Refuse", "__version__", "tool"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'nightporter' has no attribute {name!r}")
    from nightporter.authoring import words

    return getattr(words, name)
