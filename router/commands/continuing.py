"""``/continue CHANNEL``: going on with a thread somewhere else, with the same agent, memory and files."""

from __future__ import annotations

from sqlalchemy import Connection

from identity import reach
from router import texts
from router.commands.command import Asked, Command
from workspace_store import approvals, continuations, inbox, inbox_counts, outbox
from workspace_store.inbox import Row
from workspace_store.outbox import Address

CHANNELS = ("email", "slack", "telegram")
EXCHANGES = 5
LOOKED_AT = 100


def _continue(connection: Connection, asked: Asked) -> str:
    channel = asked.rest.strip().lower()
    if channel not in CHANNELS:
        return texts.CONTINUE_WHERE
    if asked.envelope.shared:
        return texts.ROOMS_STAY
    place = reach.at(connection, asked.user.id, channel)
    if place is None:
        return texts.not_linked(channel)
    said = asked.envelope
    here = Address(said.channel, said.account, said.conversation, said.thread)
    if place == here:
        return texts.ALREADY_HERE
    (row,) = inbox.newest(connection, asked.principal, limit=1)
    continuations.write(connection, asked.principal, row.seq, here, place)
    outbox.queue(
        connection,
        key=f"continue:{row.id.hex}",
        principal=asked.principal,
        turn=None,
        inbox=None,
        to=place,
        content={"text": _summary(connection, asked, here, channel), "subject": texts.CONTINUED_SUBJECT, "reply": {}},
    )
    return texts.continued(channel)


def _summary(connection: Connection, asked: Asked, here: Address, to: str) -> str:
    """What was said last in the thread, what is under way and what waits for an answer."""
    rows = [row for row in inbox.newest(connection, asked.principal, here.channel, LOOKED_AT) if _in(row, here)]
    exchanges = [
        texts.exchange(row, [said.text for said in outbox.answers(connection, row.id)])
        for row in rows[:EXCHANGES][::-1]
    ]
    waiting = [
        texts.waiting(one, one.mail_code if to == "email" else one.code)
        for one in approvals.waiting(connection, None, asked.user)
    ]
    # The row of this command is counted as received, and has its final status already.
    under_way = inbox_counts.waiting(connection, asked.principal)
    return texts.thread_so_far(here.channel, exchanges, under_way, waiting)


def _in(row: Row, place: Address) -> bool:
    at = Address(row.channel, row.account, row.conversation, row.thread)
    return row.kind == "message" and at == place


COMMANDS = {
    "continue": Command("goes on elsewhere: `/continue email`, `slack` or `telegram`", _continue),
}
