"""What a proven stranger gets: under ``pairing`` a short code and a place to wait; otherwise silence. Whoever brings a
linking code of somebody who is known is answered whatever the policy.

Nothing of theirs is stored but who they are and where they are answered, for an hour. In a conversation that others
read they are met with silence; they can write in private.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Literal

from sqlalchemy import Connection

from identity import pairing, users
from identity.access import Access, is_stranger
from identity.linking import Refused
from identity.pairing import Waiting
from identity.users import User
from router import places, texts
from router.commands import linking
from router.commands.command import Said
from router.envelope import Envelope
from router.places import Place
from workspace_store import journal, outbox, principal
from workspace_store.database import now_us
from workspace_store.journal import Event
from workspace_store.outbox import Address

TOLD_EVERY_US = 60_000_000
CODE = re.compile(r"\s*[/!](?P<name>link|confirm)(?:@\S+)?\s+(?P<code>\S.{0,80})", re.DOTALL | re.IGNORECASE)


def hear(connection: Connection, envelope: Envelope, access: Access) -> bool:
    """Deal with a message of somebody who is not admitted; whether there is something to say."""
    if envelope.shared:
        return False
    if not is_stranger(connection, envelope.sender):
        return _say_where(connection, envelope)
    place = places.private(envelope)
    command = CODE.fullmatch(envelope.text)
    if command is not None:
        said = _bring_code(connection, envelope, place, command["name"].lower(), command["code"])
        if isinstance(said, Said):
            return True
        if said == "locked" or access.policy != "pairing":
            return False
    return access.policy == "pairing" and _wait(connection, envelope, place)


def _say_where(connection: Connection, envelope: Envelope) -> bool:
    """Tell whoever's agent has moved to another installation where it is: once a minute in a conversation."""
    user = users.by_identity(connection, envelope.sender) if envelope.sender.proof else None
    if user is None or user.moved_to is None or envelope.channel == "local":
        return False  # what is local has the answer to its own request
    place = places.private(envelope)
    where = sha256(json.dumps([user.id.hex, *place.to.__dict__.values()]).encode()).hexdigest()
    key = f"moved:{where}:{now_us() // TOLD_EVERY_US}"
    places.tell(connection, principal.house(connection), key, place, texts.moved(user.moved_to))
    return True


def _bring_code(
    connection: Connection, envelope: Envelope, place: Place, name: str, code: str
) -> Said | Literal["locked", "wrong"]:
    """A code says that somebody who is known wants this stranger to be them: it needs no admin.

    A wrong one is no different from any other word of a stranger's.
    """
    key = f"code:{sha256(envelope.dedupe_key.encode()).hexdigest()}"
    if outbox.is_there(connection, key):
        return "locked"  # it was answered; nothing counts twice
    claim = envelope.sender
    if name == "confirm":
        found = linking.confirm(connection, claim, None, linking.word(code))
    else:
        found = linking.say(connection, claim, None, linking.word(code), place)
    if isinstance(found, Refused):
        return "locked" if found.why == "locked" else "wrong"
    user = users.by_identity(connection, claim)
    owner = user.id if user is not None else principal.house(connection)
    places.tell(connection, owner, key, place, found.text, tuple(found.buttons))
    return found


def _wait(connection: Connection, envelope: Envelope, place: Place) -> bool:
    to = place.to
    found = pairing.knock(connection, envelope.sender, to.conversation, to.thread, json.dumps(dict(place.reply)))
    if found is None:
        return False
    house = principal.house(connection)
    journal.append(connection, house, [Event("access.requested", {"channel": to.channel})], under=None)
    places.tell(connection, house, pairing.key(found.code), place, texts.stranger(found.code))
    _tell_admins(connection, found)
    return True


def _tell_admins(connection: Connection, found: Waiting) -> None:
    buttons = (
        {"action": "say", "value": f"/admin approve {found.code}", "label": texts.LET_IN},
        {"action": "say", "value": f"/admin refuse {found.code}", "label": texts.TURN_AWAY},
    )
    places.tell_admins(connection, pairing.key(found.code), texts.somebody_asks(found), buttons)


def settled(connection: Connection, found: Waiting, user: User | None, by: str) -> None:
    """Let every admin's question say what became of a stranger, instead of offering buttons. ``user``: let in as."""
    for admin in users.admins(connection):
        key = places.of_admin(pairing.key(found.code), admin.id)
        outbox.edit(connection, key, texts.stranger_settled(found, by, let_in=user is not None))


def place_of(found: Waiting) -> Place:
    """Where a stranger is answered."""
    claim = found.claim
    return Place(Address(claim.channel, claim.account, found.conversation, found.thread), json.loads(found.reply))


def welcome(connection: Connection, found: Waiting, user: User) -> None:
    """Tell a stranger that they are let in."""
    places.tell(connection, user.id, f"welcome:{user.id.hex}", place_of(found), texts.WELCOME)
