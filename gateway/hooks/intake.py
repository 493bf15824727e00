"""A delivery as an inbox row of its person or room: what it says is data, and nobody's word."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID, uuid4

from sqlalchemy import Connection

from identity import reach, rooms, users
from identity.access import OWNER, Access, admit
from identity.users import Claim, User
from router import own_rows
from router.envelope import Envelope
from router.inbox import Accepted
from workspace_store import hook_deliveries, inbox, journal, principal
from workspace_store.journal import Event
from workspace_store.outbox import Address

KIND = "hook"


@dataclass(frozen=True)
class Delivery:
    """``id``: the sender's own name for it, or empty; ``digest``: of all that was signed. ``text`` is the message that
    the settings make of it, ``context`` the delivery itself."""

    hook: str
    id: str
    digest: str
    text: str
    context: str

    @property
    def keys(self) -> tuple[str, ...]:
        """What makes it the same delivery: either is enough."""
        named = (f"id:{sha256(self.id.encode()).hexdigest()}",) if self.id else ()
        return (*named, f"signed:{self.digest}")


def accept(connection: Connection, said: Delivery, who: str, access: Access) -> Accepted | None:
    """Record a delivery; None: there is nobody to tell. Raises IntegrityError where the same one comes just now."""
    there = hook_deliveries.find(connection, said.hook, said.keys)
    if there is not None:
        row = inbox.get(connection, there)
        return Accepted(there, row.principal if row else principal.HOUSE, True, False, None)
    found = _whose(connection, who, access)
    if found is None or principal.is_closed(connection, found[0]):
        return None
    owner, actor, to = found
    identifier = uuid4()
    told = Envelope(
        channel=to.channel,
        account=to.account,
        external_id=f"hook:{said.hook}:{identifier.hex}",
        sender=Claim(to.channel, to.account, "", f"hook {said.hook}", ""),
        conversation=to.conversation,
        thread=to.thread,
        text=said.text,
        context=said.context,
        shared=actor is None,
    )
    _, runner = own_rows.put(connection, owner, KIND, actor, told, identifier)
    hook_deliveries.remember(connection, said.hook, said.keys, identifier)
    body = {"message": identifier.hex, "hook": said.hook, "delivery": said.id, "text": said.text}
    journal.append(connection, owner, [Event("hook.received", body)], under=None)
    return Accepted(identifier, owner, False, False, runner)


def _whose(connection: Connection, who: str, access: Access) -> tuple[UUID, UUID | None, Address] | None:
    """The principal that is told, as whom, and where it is answered; None: there is none of that name."""
    room = rooms.find(connection, who)
    if room is not None:
        return room.id, None, Address(room.channel, room.account, room.conversation, "")
    user = users.find(connection, who) or (_owner(connection, access) if who == OWNER else None)
    if user is None:
        return None
    owner = user.merged_into or user.id
    channel = who.partition(":")[0] if ":" in who else ""
    at = reach.at(connection, owner, channel) if channel else None
    to = at or reach.last(connection, owner) or Address("local", "", OWNER, "")
    return owner, owner, to


def _owner(connection: Connection, access: Access) -> User | None:
    """Who holds this machine's token, also before they have said anything."""
    return admit(connection, Claim("local", "", OWNER, OWNER, "token"), access)
