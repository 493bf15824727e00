"""What the Slack channel is set up with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SlackConfig:
    """``bot_token`` may name several workspaces' tokens, separated by blanks or commas.

    ``app_token`` turns Socket Mode on, ``signing_secret`` the Events API at ``/slack/events``; both may be on.
    """

    bot_token: str
    app_token: str = ""
    signing_secret: str = ""
    api_url: str = "https://slack.com/api/"
    trusted_teams: frozenset[str] = frozenset()
    """Teams whose profiles vouch for mail addresses."""

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(self.bot_token.replace(",", " ").split())
