"""A background task's end as an event: a row that starts a turn at the place where its person was last heard.

Written by the sandbox manager, under its tenancy, once for each end of each start of a task: the row's key says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import uuid4

from sqlalchemy import Connection

from workspace_store import inbox, inbox_counts, journal
from workspace_store.database import now_us, to_json
from workspace_store.journal import Event
from workspace_store.tenancy import Tenancy

KIND = "task"


def record(connection: Connection, held: Tenancy, body: Mapping[str, object], text: str) -> bool:
    """Journal ``task.ended`` and, where ``text`` is not empty, queue the turn that tells of it.

    Whether there is a row to ring for; False too for an end that was recorded before. Raises StaleTenancy.
    """
    owner = held.principal
    # Of a task's end whichever sandbox tells it: numbers may come back after an undo, the time does not.
    key = f"task:{owner.hex}:{body['task']}:{body['starts']}:{body['started_at']}"
    place = inbox.where_heard(connection, owner) if text else None
    if inbox.find(connection, key) is not None:
        return False
    journal.append(connection, owner, [Event("task.ended", dict(body))], under=held)
    if place is None:
        return False
    told = json.loads(place.envelope)
    told |= {"external_id": key, "text": text, "context": "", "attachments": [], "sent_at": None, "raw": ""}
    told["reply"] = inbox.reply_later(place)
    seq, _ = inbox_counts.received(connection, owner)
    inbox.insert(
        connection, status="pending", id=uuid4(), dedupe_key=key, principal=owner, seq=seq, kind=KIND,
        actor=place.actor, channel=place.channel, account=place.account, conversation=place.conversation,
        thread=place.thread, envelope=to_json(told), received_at=now_us(),
    )  # fmt: skip
    return True
