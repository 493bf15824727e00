"""The envelope: one inbound message in channel-neutral words, clean enough for any database.

A channel fills it; everything after speaks only these words. ``reply`` is the channel's own: it comes back with the
reply and nobody else reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from hashlib import sha256
from typing import Any

from identity.users import Claim
from workspace_store.database import storable, to_json

MAX_KEY_CHARACTERS = 500
"""An index of PostgreSQL takes 2,704 bytes; a Message-ID may be longer."""


@dataclass(frozen=True)
class Attachment:
    """A file that came with a message, as its sender tells of it. ``size`` in bytes, 0 where it is not told.

    ``blob``: the hash of its bytes, which come along, or ``channel:id`` of a file that the platform keeps.
    ``problem``: why it cannot be had, for people to read; empty: nothing known is in the way.
    """

    name: str
    content_type: str
    size: int
    blob: str
    problem: str = ""

    def __post_init__(self) -> None:
        for name in ("name", "content_type", "blob", "problem"):
            object.__setattr__(self, name, storable(getattr(self, name)))


@dataclass(frozen=True)
class Envelope:
    """``external_id`` is the platform's own id of the message; ``dedupe_key`` is made of it.

    ``sent_at`` is microseconds since the epoch by the sender's clock, or None. ``context``: quoted or forwarded words.
    ``shared``: others read along in the conversation: a room. Nothing private is said there. ``raw``: the blob of the
    whole message as it came, where that is kept.
    """

    channel: str
    account: str
    external_id: str
    sender: Claim
    conversation: str
    thread: str
    text: str
    context: str = ""
    attachments: tuple[Attachment, ...] = ()
    sent_at: int | None = None
    shared: bool = False
    reply: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    """What the room is called, where the channel knows."""
    more: bool = False
    """A sign that more of it is coming: an item of an album, a file alone, a text as long as the client sends one."""
    order: int = 0
    """The platform's own order of messages in a conversation, where it has one."""
    speaker: str = ""
    """Who speaks in a room, as the agent is told; named at intake, after who it is was looked up."""
    raw: str = ""

    def __post_init__(self) -> None:
        # Here, so that no channel forgets a field: what cannot be stored is never acknowledged and comes for ever.
        for name in ("account", "conversation", "thread", "text", "context", "title"):
            object.__setattr__(self, name, storable(getattr(self, name)))
        object.__setattr__(self, "sender", Claim(**{k: storable(v) for k, v in vars(self.sender).items()}))

    @property
    def dedupe_key(self) -> str:
        return dedupe_key(self.channel, self.account, self.external_id)

    def to_json(self) -> str:
        return to_json({**vars(self), "sender": vars(self.sender), "attachments": [*map(vars, self.attachments)]})

    @staticmethod
    def from_json(body: str) -> Envelope:
        found = json.loads(body)
        found["sender"] = Claim(**_known(Claim, found["sender"]))
        found["attachments"] = tuple(Attachment(**_known(Attachment, item)) for item in found["attachments"])
        return Envelope(**_known(Envelope, found))


def _known(kind: type, found: dict[str, Any]) -> dict[str, Any]:
    """What this release knows of it: a newer one may have added what can be left out."""
    names = _names(kind)
    return {name: value for name, value in found.items() if name in names}


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


clean = storable


def dedupe_key(channel: str, account: str, external_id: str) -> str:
    """What makes a message the same one: where it was said and the platform's own id of it."""
    key = storable(f"{channel}:{account}:{external_id}")
    return key if len(key) <= MAX_KEY_CHARACTERS else f"{channel}:{account}:{sha256(key.encode()).hexdigest()}"
