"""The envelope: one inbound message in channel-neutral words, clean enough for any database.

A channel fills it; everything after speaks only these words. ``reply`` is the channel's own: it comes back with the
reply and nobody else reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from identity.users import Claim

MAX_TEXT_CHARACTERS = 4_000_000

# What neither PostgreSQL nor SQLite stores in a text: NUL, and halves of surrogate pairs.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class Attachment:
    """A file that came with a message, kept as a blob. ``size`` in bytes."""

    name: str
    content_type: str
    size: int
    blob: str


@dataclass(frozen=True)
class Envelope:
    """``external_id`` is the platform's own id of the message; ``dedupe_key`` is made of it.

    ``sent_at`` is microseconds since the epoch by the sender's clock, or None. ``context``: quoted or forwarded words.
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
    reply: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dedupe_key(self) -> str:
        return f"{self.channel}:{self.account}:{self.external_id}"

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(body: str) -> Envelope:
        found = json.loads(body)
        found["sender"] = Claim(**found["sender"])
        found["attachments"] = tuple(Attachment(**item) for item in found["attachments"])
        return Envelope(**found)


def clean(text: str) -> str:
    """Text with U+FFFD in place of what no database stores."""
    return _UNSTORABLE.sub("�", text)
