"""Memory in chat: ``/memory`` looks, ``/forget`` erases, ``/export`` becomes a turn that sends one's data.

What a person names by its id is forgotten at once; what only words describe is asked about first.
"""

from __future__ import annotations

from sqlalchemy import Connection

from identity.users import GUEST
from router import memory_texts as texts
from router.commands.command import Asked, Command
from sandbox_runner import exporting
from workspace_store import erasure, inbox, memory, principal
from workspace_store.approvals import Place
from workspace_store.memory_search import matches_all
from workspace_store.outbox import Address
from workspace_store.texts import forgot

LISTED = 40
FOUND = 8


def _memory(connection: Connection, asked: Asked) -> str:
    words = asked.rest.strip()
    if not words:
        found = memory.notes(connection, asked.principal, LISTED)
        nothing = texts.NO_NOTES_OF_ROOM if asked.room else texts.NO_NOTES
        scope = principal.scope(connection, asked.principal)
        return texts.notes(found, sum(memory.count(connection, one) for one in scope)) if found else nothing
    named = memory.find(connection, asked.principal, words)
    if len(named) == 1:
        return texts.note(named[0], memory.predecessors(connection, asked.principal, named[0]))
    hits = memory.search(connection, asked.principal, words, FOUND)
    return texts.hits(hits) or texts.NOTHING_FOUND


def _forget(connection: Connection, asked: Asked) -> str:
    if asked.room is not None and asked.user.role == GUEST:
        return texts.FORGET_IS_FOR_MEMBERS
    words = asked.rest.split()
    if not words:
        return texts.FORGET_WHAT
    named = [erasure.named(connection, asked.principal, word) for word in words]
    if all(named):
        several = [found for found in named if len(found) > 1]
        if several:
            return texts.several(several[0])
        targets = erasure.with_origins(connection, asked.principal, [found[0] for found in named])
        gone = erasure.forget(connection, asked.principal, targets, by=asked.user.display_name)
        return forgot(gone.to_json())
    return _ask(connection, asked, " ".join(words))


def _ask(connection: Connection, asked: Asked, words: str) -> str:
    hits = memory.search(connection, asked.principal, words, FOUND)
    if not hits:
        return texts.NOTHING_FOUND
    meant = [hit for hit in hits if matches_all(words, hit.body)]
    if not meant:
        return texts.not_all_words(hits)
    targets = erasure.with_origins(connection, asked.principal, [erasure.of_hit(hit) for hit in meant])
    (row,) = inbox.newest(connection, asked.principal, limit=1)
    said = asked.envelope
    place = Place(Address(said.channel, said.account, said.conversation, said.thread), inbox.reply_later(row))
    erasure.ask(
        connection, asked.principal, targets, key=f"forget:{row.id.hex}", at=place, asked=asked.user.id, message=row.id
    )
    return texts.asking(targets)


def _by_a_turn(connection: Connection, asked: Asked) -> str:
    raise AssertionError("a command that starts a turn is not answered at intake")


COMMANDS = {
    "memory": Command("lists the notes I keep, `/memory WORDS` searches in all you said", _memory, for_rooms=True),
    "forget": Command("forgets for good: `/forget ID`, or `/forget WORDS`, which asks first", _forget, for_rooms=True),
    "export": Command(
        "sends you memory and journal in a file", _by_a_turn, for_rooms=True, starts=exporting.INBOX_KIND
    ),
}
