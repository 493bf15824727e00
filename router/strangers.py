"""What a proven stranger gets: under ``pairing`` a short code and a place to wait; otherwise silence.

Nothing of theirs is stored but who they are and where they are answered, for an hour. In a conversation that others
read they are met with silence; they can write in private.
"""

from __future__ import annotations

import json

from sqlalchemy import Connection

from identity import pairing, reach, users
from identity.access import Access, is_stranger
from identity.pairing import Waiting
from identity.users import User
from router import places, texts
from router.envelope import Envelope
from router.places import Place
from workspace_store import journal, principal
from workspace_store.journal import Event
from workspace_store.outbox import Address


def hear(connection: Connection, envelope: Envelope, access: Access) -> bool:
    """Deal with a message of somebody who is not admitted; whether there is something to say."""
    if access.policy != "pairing" or envelope.shared or not is_stranger(connection, envelope.sender):
        return False
    place = places.private(envelope)
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
        {"action": "admit", "value": found.code, "label": texts.LET_IN},
        {"action": "turn_away", "value": found.code, "label": texts.TURN_AWAY},
    )
    for admin in users.admins(connection):
        address = reach.last(connection, admin.id)
        if address is not None:
            key = f"{pairing.key(found.code)}:{admin.id.hex}"
            places.tell(connection, admin.id, key, Place(address, {}), texts.somebody_asks(found), buttons)


def place_of(found: Waiting) -> Place:
    """Where a stranger is answered."""
    claim = found.claim
    return Place(Address(claim.channel, claim.account, found.conversation, found.thread), json.loads(found.reply))


def welcome(connection: Connection, found: Waiting, user: User) -> None:
    """Tell a stranger that they are let in."""
    places.tell(connection, user.id, f"welcome:{user.id.hex}", place_of(found), texts.WELCOME)
