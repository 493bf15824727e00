"""The local channel's words: messages in by HTTP, replies read from the outbox by whoever asks."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.channel import Outcome, Sent
from gateway.local.forms import GivenFile
from identity.users import Claim
from router.envelope import Attachment, Envelope, dedupe_key
from workspace_store.blobs import blob_name
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


def envelope(
    user: str, message_id: str, text: str, thread: str, files: Sequence[GivenFile] = (), *, more: bool = False
) -> tuple[Envelope, dict[str, bytes]]:
    """A message of the token's holder, or of a named user that the holder speaks for; and the bytes of its files."""
    named = [(file, blob_name(file.content)) for file in files]
    said = Envelope(
        channel=NAME,
        account="",
        external_id=external_id(user, message_id),
        sender=Claim(NAME, "", user, user, "token"),
        conversation=user,
        thread=thread,
        text=text,
        attachments=tuple(Attachment(file.name, file.content_type, len(file.content), blob) for file, blob in named),
        more=more,
    )
    return said, {blob: file.content for file, blob in named}
