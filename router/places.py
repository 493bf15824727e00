"""Telling people something that they did not just ask for: where, and once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from identity import codes, reach, users
from router.envelope import Envelope
from workspace_store import journal, outbox
from workspace_store.journal import Event
from workspace_store.outbox import Address
from workspace_store.principal import HOUSE


@dataclass(frozen=True)
class Place:
    """An address, and what its channel wants back with a reply."""

    to: Address
    reply: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {**self.to.__dict__, "reply": dict(self.reply)}

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Place:
        names = ("channel", "account", "conversation", "thread")
        return Place(Address(*(str(body[name]) for name in names)), dict(body["reply"]))


def private(envelope: Envelope) -> Place:
    """Where the sender of a private message can be told more."""
    to = Address(envelope.channel, envelope.account, envelope.conversation, envelope.thread)
    if "response_url" in envelope.reply:
        # A slash command in a channel is answered where only that person sees it, for half an hour.
        return Place(Address(to.channel, to.account, envelope.sender.external_id, ""), {})
    return Place(to, envelope.reply)


def tell(
    connection: Connection,
    owner: UUID,
    key: str,
    place: Place,
    text: str,
    buttons: tuple[Mapping[str, str], ...] = (),
    inbox_row: UUID | None = None,
) -> bool:
    """Say something to somebody; False: the same ``key`` was said before, and is not said again."""
    if outbox.is_there(connection, key):
        return False
    content: dict[str, Any] = {"text": text, "reply": dict(place.reply)}
    if codes.masked(text) != text:
        content["secret"] = True
    if buttons:
        content["buttons"] = [dict(button) for button in buttons]
    queued = outbox.queue(
        connection, key=key, principal=owner, turn=None, inbox=inbox_row, to=place.to, content=content
    )
    if queued is not None:
        # What is said to strangers is no more of the house's memory than what they said.
        body = {"message": None, **({"text": codes.masked(text)} if owner != HOUSE else {})}
        journal.append(connection, owner, [Event("reply.queued", body)], under=None)
    return True


def tell_admins(connection: Connection, key: str, text: str, buttons: tuple[Mapping[str, str], ...] = ()) -> list[bool]:
    """Say something to every admin, where each wrote last in private; of each who can be told, what ``tell`` said."""
    told = []
    for admin in users.admins(connection):
        address = reach.last(connection, admin.id)
        if address is not None:
            told.append(tell(connection, admin.id, of_admin(key, admin.id), Place(address, {}), text, buttons))
    return told


def of_admin(key: str, admin: UUID) -> str:
    """The key of what one admin is told under ``key``."""
    return f"{key}:{admin.hex}"
