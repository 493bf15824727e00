"""Writing to another channel: the person's own is free, anybody else's takes an approval.

None is needed where the settings allow the target or the person's own words name exactly it. What goes out is written
with the tool's result, so it goes out once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import Field
from sqlalchemy import Connection

from agent import own_words, texts
from agent.tool import Arguments, Ask, Refuse, Tool, ToolHost, ToolResult, Write
from identity import reach, users
from identity.names import harmless
from workspace_store import inbox, outbox, principal
from workspace_store.journal import Event
from workspace_store.outbox import Address

EMAIL = "email"
CHANNELS = ("slack", "telegram", EMAIL, "local")
MOST_CHARACTERS = 20_000


class MessageArguments(Arguments):
    to: str = Field(
        min_length=1,
        max_length=300,
        description="One of the person's own channels (slack, telegram, email, local), or somebody else: "
        "email:ADDRESS, telegram:ID, slack:TEAM/USER, local:NAME or a user's UUID.",
    )
    text: str = Field(min_length=1, max_length=MOST_CHARACTERS, description="Markdown.")


@dataclass(frozen=True)
class Target:
    """Who is written to. ``name``: as approvals, settings and people have it. ``own``: it is the person themselves."""

    name: str
    address: Address
    own: bool
    reply: Mapping[str, Any]


def find(connection: Connection, owner: UUID, to: str) -> Target | None:
    """The target of a name; None: there is none, or it cannot be reached."""
    to = to.strip()
    if to.lower() in CHANNELS:
        address = _own(connection, owner, to.lower())
        return Target(to.lower(), address, True, _reply_at(connection, owner, address)) if address else None
    known = users.identity_named(connection, to)
    user = users.find(connection, to)
    if user is not None:
        if users.is_blocked(connection, user.id):
            return None
        address = reach.of(known) if known else reach.last(connection, user.id)
        own = user.id in principal.scope(connection, owner) and principal.kind(connection, owner) == "user"
        if address is None:
            return None
        there = reach.at(connection, user.id, address.channel, address.account) or address
        name = known.name if known else str(user.id)
        return Target(name, there, own, _reply_at(connection, user.id, there))
    scheme, _, mail = to.partition(":")
    local, at, domain = mail.rpartition("@")
    if scheme.lower() == EMAIL and at and local and "." in domain and mail.isprintable() and " " not in mail:
        written = f"{local}@{domain.lower()}"
        return Target(f"{EMAIL}:{written}", Address(EMAIL, "", written, ""), False, {})
    return None


def _own(connection: Connection, owner: UUID, channel: str) -> Address | None:
    """Where the person themselves is reached; a room is reached nowhere but in itself."""
    return reach.at(connection, owner, channel) if principal.kind(connection, owner) == "user" else None


def _reply_at(connection: Connection, user: UUID, address: Address) -> Mapping[str, Any]:
    """What a channel wants back with something said in a conversation it knows; a mail begins a thread of its own."""
    if address.channel == EMAIL:
        return {}
    for row in inbox.newest(connection, user, address.channel, limit=5):
        if row.conversation == address.conversation:
            return inbox.reply_later(row)
    return {}


async def _before(host: ToolHost, given: Mapping[str, Any]) -> Ask | Refuse | None:
    """Who is not the person themselves is asked about, unless allowed or named by them."""

    def look(connection: Connection) -> tuple[Target | None, bool]:
        target = find(connection, host.principal, str(given["to"]))
        if target is None or target.own:
            return target, True
        mine = own_words.of_turn(connection, host.principal, host.turn)
        bare = target.name.partition(":")[2] if target.name.startswith(f"{EMAIL}:") else target.name
        return target, own_words.names(mine, bare)

    target, free = await host.read(look)
    if target is None:
        return Refuse(texts.no_such_target(str(given["to"])))
    if free or any(fnmatchcase(target.name.lower(), allowed.lower()) for allowed in host.message_allow):
        return None
    return Ask(texts.may_send(target.name, str(given["text"])))


async def _send(host: ToolHost, call_id: str, given: Mapping[str, Any]) -> ToolResult:
    target = await host.read(lambda connection: find(connection, host.principal, str(given["to"])))
    if target is None:
        return ToolResult(texts.refused(texts.no_such_target(str(given["to"]))))
    sender = await host.read(partial(_sender, owner=host.here.user or host.principal))
    text = str(given["text"])
    content = {"text": text if target.own else texts.message_from(sender, text), "reply": dict(target.reply)}
    write = Write(
        lambda connection: outbox.queue(
            connection, key=f"{host.turn.hex}:{call_id}", principal=host.principal, turn=None, inbox=None,
            to=target.address, content=content,
        ),
        Event("message.sent", {"to": target.name, "text": text}),
    )  # fmt: skip
    return ToolResult(texts.sent_to(target.name), writes=(write,))


def _sender(connection: Connection, owner: UUID) -> str:
    user = users.get(connection, owner)
    return harmless(user.display_name) if user is not None else ""


SEND_MESSAGE = Tool(
    "send_message",
    "Write to another channel of the person, or to somebody else (they are asked first).",
    "idempotent",
    _send,
    arguments=MessageArguments,
    gate=_before,
)
