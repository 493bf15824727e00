"""Asking the person: the turn ends in ``waiting``, and goes on with the answer, whenever that comes and from wherever.

The question is the turn's reply. It is answered by a button, or in words: the next thing said where it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from agent import texts
from agent.tool import Arguments, Tool, ToolHost, ToolResult

MOST_CHOICES = 6
ASKS = "asks"
"""Where a result's data holds the question."""

Choice = Annotated[str, Field(min_length=1, max_length=60)]


class AskArguments(Arguments):
    question: str = Field(min_length=1, max_length=900, description="One question, complete by itself.")
    choices: list[Choice] = Field(
        default_factory=list, max_length=MOST_CHOICES, description="Answers to choose from, if there are such."
    )


async def _ask(host: ToolHost, call_id: str, given: Mapping[str, Any]) -> ToolResult:
    choices = list(dict.fromkeys(str(choice).strip() for choice in given.get("choices", ())))
    asks = {"question": str(given["question"]).strip(), "choices": [choice for choice in choices if choice]}
    return ToolResult(texts.ASKED, {ASKS: asks})


ASK_USER = Tool(
    "ask_user",
    "Ask the person something that only they can say, and stop until they answer.",
    "pure",
    _ask,
    arguments=AskArguments,
)
