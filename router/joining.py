"""Joining people who have confirmed it at both sides, and telling both; also later, when a merge has waited its time.

A merge that cannot be done now (a turn runs, a day to object has not passed) is a row; ``complete_due`` does what is
due, in whichever process looks first.
"""

from __future__ import annotations

import structlog
from sqlalchemy import Connection

from agent import old_turns
from identity import linking, merging, reach, users, vouching
from identity.linking import Heard, Link
from identity.merging import Merge, MergeRefused
from identity.users import Known
from router import link_texts as texts
from router import places
from router.envelope import Envelope
from router.places import Place
from workspace_store import principal

log = structlog.get_logger()


def join(connection: Connection, heard: Heard, code: str) -> str:
    """Both sides have confirmed: join them, tell the other side, and say what became of it. Raises MergeRefused."""
    link = heard.link
    joined = linking.join(connection, link)
    if joined.merge is not None:
        make_findable(connection, joined.merge)
    words = {side: _outcome(connection, link, joined.merge, side, code) for side in ("maker", "other")}
    other_side = "other" if heard.side == "maker" else "maker"
    tell(connection, link, other_side, f"joined:{link.id.hex}", words[other_side])
    if joined.merge is not None and joined.merge.state == "waiting" and joined.merge.due_at > joined.merge.asked_at:
        _tell_admins(connection, joined.merge)
    return words[heard.side]


def join_vouched(connection: Connection, envelope: Envelope) -> None:
    """Join who writes with the verified mail identity that their platform vouches for, and tell both."""
    claim = envelope.sender
    mail = vouching.to_join(connection, claim)
    if mail is None:
        return
    address = reach.of(mail)
    assert address is not None
    here = reach.of(Known(claim.channel, claim.account, claim.external_id)) if envelope.shared else None
    place = Place(here, {}) if here is not None else places.private(envelope)
    link = linking.vouched(connection, mail, claim, Place(address, {}).to_json(), place.to_json())
    try:
        words = join(connection, Heard(link, "other"), "")
    except MergeRefused as error:
        log.info("not joined by its platform's word", reason=str(error))
        return
    tell(connection, link, "other", f"joined:{link.id.hex}", texts.vouched(words, mail.name))


def _outcome(connection: Connection, link: Link, merge: Merge | None, side: str, code: str) -> str:
    them = name_of(connection, link, "other" if side == "maker" else "maker")
    if merge is None:
        return texts.joined(them)
    if merge.state == "done":
        # Whoever had nothing has nothing to be found anywhere.
        if merging.holdings_alone(connection, merge.absorbed).empty:
            return texts.joined(them)
        return texts.joined_with_folder(them, merge.folder)
    if merge.due_at <= merge.asked_at:
        return texts.joins_when_quiet(them)
    return texts.joins_later(them, merge, code)


def name_of(connection: Connection, link: Link, side: str) -> str:
    """A side of a code as the other one reads it: how its channel knows it, and the name it gives itself there."""
    if side == "other" and link.other is not None:
        return texts.known_as(link.other)
    known = users.identity_by_id(connection, link.maker_identity)
    return texts.known_as(known) if known is not None else "the one who made the code"


def tell(
    connection: Connection, link: Link, side: str, key: str, text: str, buttons: tuple[dict[str, str], ...] = ()
) -> None:
    """Tell one side of a code where it said so; a stranger by the house itself."""
    place = link.maker_place if side == "maker" else link.other_place
    if place is None or link.other is None:
        return
    if side == "maker":
        owner = linking.root(connection, link.maker)
    else:
        user = users.by_identity(connection, link.other)
        owner = user.id if user is not None else principal.house(connection)
    places.tell(connection, owner, f"{key}:{side}", Place.from_json(place), text, buttons)


def _tell_admins(connection: Connection, merge: Merge) -> None:
    kept, absorbed = users.get(connection, merge.kept), users.get(connection, merge.absorbed)
    if kept is None or absorbed is None:
        return
    places.tell_admins(connection, f"merge:{merge.id.hex}", texts.waits_for_admins(merge, kept, absorbed))


def tell_objected(connection: Connection, merge: Merge) -> None:
    """Both sides hear that a merge of theirs was stopped."""
    link = linking.of_merge(connection, merge.id)
    for side in ("maker", "other") if link is not None else ():
        assert link is not None
        them = name_of(connection, link, "other" if side == "maker" else "maker")
        tell(connection, link, side, f"objected:{merge.id.hex}", texts.objected(them))


def complete_due(connection: Connection) -> int:
    """Do the merges that are due, and tell whoever asked for them; how many were done."""
    done = 0
    for merge in merging.due(connection):
        try:
            if not merging.attempt(connection, merge):
                continue
        except MergeRefused as error:
            log.warning("a merge cannot be done", merge=str(merge.id), reason=str(error))
            merging.object_to(connection, merge, None)
            continue
        done += 1
        finished = merging.get(connection, merge.id)
        assert finished is not None
        make_findable(connection, finished)
        link = linking.of_merge(connection, merge.id)
        if link is not None:
            for side in ("maker", "other"):
                text = _outcome(connection, link, finished, side, "")
                tell(connection, link, side, f"merged:{merge.id.hex}", text)
    return done


def make_findable(connection: Connection, merge: Merge) -> None:
    """What the absorbed one said lately: no turn of theirs will fold it any more."""
    if merge.state == "done":
        while old_turns.fold_all(connection, merge.absorbed).turns:
            pass
