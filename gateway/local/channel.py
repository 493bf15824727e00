"""The local channel's words: messages in by HTTP, replies read from the outbox by whoever asks."""

from __future__ import annotations

from gateway.channel import Outcome, Sent
from identity.users import Claim
from router.envelope import Envelope, dedupe_key
from workspace_store.outbox import Reply

NAME = "local"


class LocalChannel:
    """A reply is delivered when it can be read: being told twice changes nothing."""

    name = NAME

    async def send(self, reply: Reply) -> Outcome:
        return Sent(external_id=reply.id.hex)


def external_id(user: str, message_id: str) -> str:
    """A message id is its sender's own: two people may use the same."""
    return f"{user}/{message_id}"


def key(user: str, message_id: str) -> str:
    """The dedupe key of a person's message."""
    return dedupe_key(NAME, "", external_id(user, message_id))


def envelope(user: str, message_id: str, text: str, thread: str) -> Envelope:
    """A message of the token's holder, or of a named user that the holder speaks for."""
    return Envelope(
        channel=NAME,
        account="",
        external_id=external_id(user, message_id),
        sender=Claim(NAME, "", user, user, "token"),
        conversation=user,
        thread=thread,
        text=text,
    )
