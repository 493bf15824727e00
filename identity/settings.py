"""Settings of identity and access: who may talk to the agent, who administers it, which teams vouch for mail."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator

from workspace_store.section import CountOrZero, Section


class ExternalIdentity(NamedTuple):
    """A person as one channel knows them; ``account`` is the Slack team, and empty for email and Telegram."""

    channel: str
    account: str
    external_id: str

    @classmethod
    def parse(cls, entry: str) -> ExternalIdentity:
        """Read ``email:ann@example.org``, ``slack:T1/U1`` or ``telegram:42``; ``ValueError`` says what is wrong."""
        channel, _, rest = entry.strip().partition(":")
        if channel == "email":
            local, at, domain = rest.rpartition("@")
            if local and at and domain and not any(c.isspace() for c in rest):
                return cls("email", "", f"{local}@{domain.lower()}")
        elif channel == "slack":
            team, slash, user = rest.partition("/")
            if team and slash and user and "/" not in user:
                return cls("slack", team, user)
        elif channel == "telegram" and rest.isascii() and rest.isdigit():
            return cls("telegram", "", rest)
        raise ValueError(
            f"{entry!r} names nobody; write email:ann@example.org, slack:T1/U1 (team and user) or telegram:42"
        )

    def __str__(self) -> str:
        return f"{self.channel}:{self.account}/{self.external_id}" if self.account else f"{self.channel}:{self[2]}"


def _entry(value: str) -> str:
    return str(ExternalIdentity.parse(value))


class AccessSettings(Section):
    """``[access]``: who may use the agent."""

    policy: Literal["pairing", "allowlist", "open"] = "pairing"
    """What a proven stranger gets: a code that an admin approves, nothing, or service."""
    admins: tuple[Annotated[str, AfterValidator(_entry)], ...] = ()
    """Who administers: `email:ann@example.org`, `slack:T1/U1` (team and user), `telegram:42`."""
    sender_per_minute: CountOrZero = 6000
    """Messages a minute that are taken from one sender; 0: any number. What is over it is refused, and said so once."""
    channel_per_minute: CountOrZero = 60000
    """Messages a minute that are taken at one channel; 0: any number."""

    rooms: Literal["members", "open", "off"] = "members"
    """Whose words count in rooms: those whom `policy` admits, everybody's there (as guests), or nobody's."""

    def admin_identities(self) -> tuple[ExternalIdentity, ...]:
        """The admins, parsed."""
        return tuple(ExternalIdentity.parse(entry) for entry in self.admins)


class IdentitySettings(Section):
    """``[identity]``: what is believed about people."""

    trusted_slack_teams: tuple[str, ...] = ()
    """Slack teams whose profile emails link a member to their mail identity without a code."""
