"""The direct conversation with a person: ``D…``, of whom the platform or another channel knows only ``U…``.

https://docs.slack.dev/reference/methods/conversations.open: the same conversation each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slack_sdk.errors import SlackApiError

from gateway.channel import Refused, Retry, repeatable
from gateway.slack import outcomes
from gateway.slack.installations import Installation

MOST = 50_000


def is_person(conversation: str) -> bool:
    """Whether a conversation is named by who it is with."""
    return conversation.startswith(("U", "W"))


@dataclass
class Direct:
    """Asks Slack once for each person."""

    _opened: dict[tuple[str, str], str] = field(default_factory=dict)

    async def conversation(self, installation: Installation, user: str) -> str | Retry:
        """The conversation with ``user``; the user's own id, which takes messages too, where Slack does not say."""
        key = (installation.team, user)
        if key not in self._opened:
            try:
                answer = await installation.client.conversations_open(users=user)
            except (SlackApiError, *outcomes.CONNECTION_ERRORS) as error:
                known = repeatable(outcomes.of_error(error))
                return user if isinstance(known, Refused) else known
            if len(self._opened) >= MOST:
                self._opened.clear()
            self._opened[key] = str((answer.get("channel") or {}).get("id") or user)
        return self._opened[key]
