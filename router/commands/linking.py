"""``/link``, ``/confirm``, ``/object`` and ``/unlink``: one person at several channels, by their own word at both."""

from __future__ import annotations

from sqlalchemy import Connection

from identity import codes, linking, merging, reach, users
from identity.linking import Heard, Refused
from identity.merging import MergeRefused
from identity.users import Claim, User
from router import joining, places
from router import link_texts as texts
from router.commands.command import Asked, Command, Said
from router.envelope import Envelope
from router.places import Place

WHY = {
    "wrong": texts.WRONG_CODE,
    "locked": texts.LOCKED,
    "own": texts.OWN_CODE,
    "done": texts.DONE_ALREADY,
}


def _link(connection: Connection, asked: Asked) -> str | Said:
    code = word(asked.rest)
    if asked.envelope.shared and code:
        linking.void(connection, code)
        return texts.SAID_IN_A_ROOM
    place = _place(connection, asked)
    if place is None:
        return texts.NOT_FROM_HERE
    if code:
        return _worded(say(connection, asked.envelope.sender, asked.user, code, place))
    known = users.identity_of(connection, asked.envelope.sender)
    if known is None or known.id is None:
        return texts.NOT_FROM_HERE
    made = linking.make(connection, asked.user, known.id, place.to_json())
    return Said(texts.link_code(made, asked.doors), secret=True)


def say(connection: Connection, claim: Claim, user: User | None, code: str, place: Place) -> Said | Refused:
    """Somebody brings a code: each side is shown who would gain what."""
    heard = linking.say(connection, claim, user, code, place.to_json())
    if isinstance(heard, Refused):
        return heard
    link, typed = heard.link, codes.typed(code)
    maker = users.get(connection, linking.root(connection, link.maker))
    assert maker is not None
    theirs = texts.holds(merging.holdings(connection, maker.id))
    yours = texts.holds(merging.holdings(connection, user.id)) if user else texts.NOTHING
    roles = (maker.role, user.role if user else "member")
    wait = "admin" not in roles and theirs != texts.NOTHING and yours != texts.NOTHING
    buttons = ({"action": "say", "value": f"/confirm {typed}", "label": texts.CONFIRM},)
    shown = texts.would_join(
        joining.name_of(connection, link, "other"), yours, theirs, typed, wait=wait,
        admin=roles[0] == "admin" and roles[1] != "admin",
    )  # fmt: skip
    joining.tell(connection, link, "maker", f"link:{link.id.hex}", shown, buttons)
    them = joining.name_of(connection, link, "maker")
    admin = roles[1] == "admin" and roles[0] != "admin"
    return Said(texts.would_join(them, theirs, yours, typed, wait=wait, admin=admin), buttons, secret=True)


def _confirm(connection: Connection, asked: Asked) -> str | Said:
    code = word(asked.rest)
    if not code:
        return texts.NOTHING_TO_CONFIRM
    if asked.envelope.shared:
        linking.void(connection, code)
        return texts.SAID_IN_A_ROOM
    return _worded(confirm(connection, asked.envelope.sender, asked.user, code))


def _worded(said: Said | Refused) -> Said:
    return Said(WHY[said.why]) if isinstance(said, Refused) else said


def confirm(connection: Connection, claim: Claim, user: User | None, code: str) -> Said | Refused:
    """One side confirms; the second one joins."""
    heard = linking.confirm(connection, claim, user, code)
    if isinstance(heard, Refused):
        return heard
    typed = codes.typed(code)
    if heard.complete:
        try:
            return Said(joining.join(connection, heard, typed))
        except MergeRefused as error:
            return Said(texts.cannot_join(str(error)))
    return Said(_half_confirmed(connection, heard, typed))


def _half_confirmed(connection: Connection, heard: Heard, code: str) -> str:
    there = "other" if heard.side == "maker" else "maker"
    here = joining.name_of(connection, heard.link, heard.side)
    buttons = ({"action": "say", "value": f"/confirm {code}", "label": texts.CONFIRM},)
    told = texts.confirmed_there(here, code)
    joining.tell(connection, heard.link, there, f"confirmed:{heard.link.id.hex}", told, buttons)
    return texts.confirmed_here(joining.name_of(connection, heard.link, there))


def _object(connection: Connection, asked: Asked) -> str:
    waiting = [one for one in merging.of(connection, asked.user.id) if one.state == "waiting"]
    for one in waiting:
        merging.object_to(connection, one, asked.user.id)
        joining.tell_objected(connection, one)
    return texts.OBJECTED if waiting else texts.NOTHING_TO_OBJECT_TO


def _unlink(connection: Connection, asked: Asked) -> str:
    found = linking.undoable(connection, asked.user.id)
    wanted = asked.rest.strip("`")
    chosen = [one for one in found if one.name == wanted] if wanted else found
    if not chosen:
        return texts.which_to_unlink(found) if found else texts.NOTHING_TO_UNLINK
    if len(chosen) > 1:
        return texts.which_to_unlink(chosen)
    try:
        if not linking.unlink(connection, asked.user, chosen[0]):
            return texts.BUSY
    except MergeRefused as error:
        return texts.cannot_join(str(error))
    address = reach.of(chosen[0])
    if address is not None:
        key = f"unlinked:{chosen[0].id}:{asked.envelope.dedupe_key}"
        user = users.by_identity(connection, Claim(*chosen[0].key))
        if user is not None:
            places.tell(connection, user.id, key, Place(address, {}), texts.unlinked_there(asked.user))
    return texts.unlinked(chosen[0].name)


def word(rest: str) -> str:
    """The code in what was said, however it was wrapped."""
    return "".join(rest.split()).strip("`.,<>\"'") if len(rest) <= 80 else ""


def _place(connection: Connection, asked: Asked) -> Place | None:
    envelope: Envelope = asked.envelope
    if not envelope.shared:
        return places.private(envelope)
    claim = envelope.sender
    address = reach.at(connection, asked.user.id, claim.channel, claim.account)
    return Place(address, {}) if address is not None else None


COMMANDS = {
    "link": Command("makes you one person at another channel: `/link` here, `/link CODE` there", _link, secret=True),
    "confirm": Command("confirms a link: `/confirm CODE`, at both channels", _confirm, secret=True),
    "unlink": Command("takes a link of the last seven days apart", _unlink),
    "object": Command("stops a merge of yours that waits", _object),
}
