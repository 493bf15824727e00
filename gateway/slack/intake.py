"""From a delivery to the inbox: parsed, judged, recorded; only then is it acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import structlog

from gateway.changes import Changed
from gateway.slack import texts
from gateway.slack.assistant import Assistant
from gateway.slack.installations import Installation, Installations, UnknownWorkspace
from gateway.slack.parse import decide, parse
from gateway.slack.parsed import ACTS, Bot, Parsed
from gateway.slack.people import People
from gateway.slack.place import is_direct
from gateway.slack.strands import Strands
from identity.users import Claim
from router.changes import Change
from router.commands import COMMANDS
from router.envelope import Attachment, Envelope, clean, dedupe_key
from router.inbox import Accepted

log = structlog.get_logger()

NAME = "slack"
SPLIT_CHARACTERS = 3900
"""The composer cuts what is pasted at 4,000 characters or at the last blank before."""

Accept = Callable[[Envelope], Awaitable[Accepted | None]]
TakesPart = Callable[[str, str, str], Awaitable[bool]]
"""(team, conversation, thread) → whether the agent has answered there, for what memory no longer knows."""


@dataclass
class Intake:
    """Raises what ``accept`` raises, and connection errors while it is not known who the agent is: try again later."""

    installations: Installations
    accept: Accept
    takes_part: TakesPart
    changed: Changed
    people: People = field(default_factory=People)
    strands: Strands = field(default_factory=Strands)
    assistant: Assistant = field(default_factory=Assistant)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def handle(self, body: Mapping[str, Any]) -> str:
        """Record one delivery; what to answer to Slack (mostly nothing)."""
        installation = await self._installation(body)
        if installation is None:
            return ""
        parsed = parse(body, installation.bot)
        if installation.disabled and parsed.action not in {"uninstall", "revoke"}:
            # What is heard from there says that it is installed again.
            await self.installations.look_again(installation)
        if parsed.action == "challenge":
            return str(parsed.details.get("respond") or "")
        if parsed.needs_thread:
            parsed = decide(parsed, await self._takes_part(parsed))
        if parsed.action in ACTS:
            await self._act(parsed, installation)
            return ""
        if parsed.joins_thread:
            self.strands.join(parsed)
        if parsed.action in {"edit", "delete", "reaction"}:
            await self.changed(_change(parsed))
        elif parsed.action in {"uninstall", "revoke"}:
            installation.disabled = texts.UNINSTALLED if parsed.action == "uninstall" else texts.REVOKED
            log.error("slack is off in a workspace", team=parsed.team, reason=installation.disabled)
        elif parsed.action == "welcome":
            self._later(self.assistant.welcome(installation.client, parsed))
        elif parsed.details.get("viewing"):
            self._later(self.assistant.viewing(installation.client, parsed))
        else:
            log.debug("slack delivery ignored", reason=parsed.details.get("reason"), kind=body.get("type"))
        return ""

    async def _installation(self, body: Mapping[str, Any]) -> Installation | None:
        if body.get("type") == "url_verification":
            return Installation("", Bot(""), self.installations.client())
        await self.installations.load()
        for team in _teams(body):
            try:
                return await self.installations.of(team)
            except UnknownWorkspace:
                continue
        log.warning("slack delivery of a workspace without a token", teams=_teams(body))
        return None

    async def _takes_part(self, parsed: Parsed) -> bool:
        if self.strands.takes_part(parsed):
            return True
        return await self.takes_part(parsed.team or "", parsed.channel or "", parsed.thread or "")

    async def _act(self, parsed: Parsed, installation: Installation) -> None:
        # One gesture may arrive under two ``ts``; the first one's key stands for both.
        key = self.strands.first_key(parsed)
        envelope = envelope_of(replace(parsed, dedupe_key=key))
        sender, client = envelope.sender, installation.client
        mail = ""
        if not parsed.details.get("external"):
            mail = await self.people.mail_of(client, sender.account, sender.external_id)
        name = await self.people.name_of(client, sender.account, sender.external_id)
        envelope = replace(envelope, sender=replace(sender, vouched_mail=mail, display=clean(name)))
        if looking_at := self.assistant.looking_at(parsed.channel, parsed.thread):
            envelope = replace(envelope, context="\n\n".join(filter(None, (envelope.context, looking_at))))
        accepted = await self.accept(envelope)
        if accepted and parsed.joins_thread:
            self.strands.join(parsed)
        if accepted and not accepted.duplicate and not accepted.acted and envelope.thread:
            self._later(self.assistant.working(client, envelope))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """A kindness that may fail, after the acknowledgement."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _teams(body: Mapping[str, Any]) -> list[str]:
    """Workspaces a delivery may be for, the likeliest first."""
    given = body.get("authorizations")
    installed = [str(item.get("team_id") or item.get("enterprise_id") or "") for item in given or [] if item]
    team, user = body.get("team"), body.get("user")
    others = [
        body.get("team_id"),
        team.get("id") if isinstance(team, dict) else None,
        user.get("team_id") if isinstance(user, dict) else None,
        body.get("enterprise_id"),
    ]
    return [name for name in dict.fromkeys([*installed, *map(str, filter(None, others))]) if name]


def claim(parsed: Parsed) -> Claim:
    """An external person is a person of their own workspace, never of the one that hears them."""
    return Claim(NAME, str(parsed.details.get("user_team") or parsed.team or ""), parsed.user or "", "", "platform")


def envelope_of(parsed: Parsed) -> Envelope:
    """A delivery that acts, in channel-neutral words."""
    context = parsed.context
    if parsed.details.get("transcript"):
        context = "\n\n".join(filter(None, (context, texts.transcript(str(parsed.details["transcript"])))))
    return Envelope(
        channel=NAME,
        account=parsed.team or "",
        external_id=(parsed.dedupe_key or "").removeprefix(f"{parsed.team}:"),
        sender=claim(parsed),
        # What is said to the agent alone, wherever, belongs to the person's private conversation.
        conversation=(parsed.user if _privately(parsed) else parsed.channel or parsed.user) or "",
        thread="" if _privately(parsed) else parsed.thread or "",
        text=clean(_text(parsed)),
        context=clean(context),
        attachments=tuple(
            Attachment(clean(file.name or file.id), file.content_type, file.size, f"{NAME}:{file.id}")
            for file in parsed.files
        ),
        sent_at=_microseconds(parsed.ts),
        more=_expects_more(parsed),
        order=_microseconds(parsed.ts) or 0,
        shared=parsed.channel is not None and not is_direct(parsed.channel) and not _privately(parsed),
        reply=_reply(parsed),
    )


def _expects_more(parsed: Parsed) -> bool:
    """A sign that another message belongs to it: files alone, or a text as long as the composer lets one be."""
    if parsed.action != "message":
        return False
    alone = bool(parsed.files) and not parsed.text and not any(file.voice for file in parsed.files)
    return alone or len(parsed.text or "") >= SPLIT_CHARACTERS


def _text(parsed: Parsed) -> str:
    said = parsed.text or ""
    if parsed.action == "say":
        return str(parsed.details.get("value"))
    if parsed.action in _PRESSED:
        return f"/{parsed.action} {parsed.details.get('value')}".strip()
    if parsed.action == "command" and said.partition(" ")[0].lower() in COMMANDS.keys() | _LATER:
        return f"/{said}"
    # A bare mention or slash command asks what there is to ask.
    return said if said or parsed.context or parsed.files else "/help"


_PRESSED = frozenset({"approve", "deny", "undo", "say"})
_LATER = frozenset(
    {"approve", "deny", "undo", "link", "confirm", "unlink", "admin", "actions", "tasks", "schedule", "send", "show"}
)


def _reply(parsed: Parsed) -> dict[str, Any]:
    pressed = parsed.action in _PRESSED
    found = {
        "user": parsed.user,
        "response_url": parsed.details.get("response_url"),
        "private": pressed or _privately(parsed) or None,
        "pressed": parsed.details.get("message") if pressed else None,
    }
    return {name: value for name, value in found.items() if value}


def _privately(parsed: Parsed) -> bool:
    """Said in a channel where only the agent hears it, and answered to that person alone."""
    return parsed.action == "command" and not is_direct(parsed.channel)


def _microseconds(ts: str) -> int | None:
    seconds, _, rest = ts.partition(".")
    if not seconds.isdigit() or not (rest or "0").isdigit():
        return None
    return int(seconds) * 1_000_000 + int(rest.ljust(6, "0")[:6] or 0)


def _change(parsed: Parsed) -> Change:
    return Change(
        kind="edit" if parsed.action == "edit" else "delete" if parsed.action == "delete" else "reaction",
        key=_change_key(parsed),
        message=f"{NAME}:{parsed.dedupe_key or ''}" if parsed.dedupe_key else "",
        sender=claim(parsed),
        account=parsed.team or "",
        conversation=parsed.channel or "",
        thread=parsed.thread or "",
        text=clean(parsed.text or ""),
        emoji=str(parsed.details.get("emoji") or ""),
        target=str(parsed.details.get("target") or ""),
        removed=bool(parsed.details.get("removed")),
    )


def _change_key(parsed: Parsed) -> str:
    """Slack's id of the event, which a redelivery keeps; without one, what it says."""
    own = parsed.details.get("event_id") or sha256(repr(parsed).encode()).hexdigest()
    return dedupe_key(NAME, parsed.team or "", f"change:{own}")
