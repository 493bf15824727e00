"""What the house itself has to tell its admins, where each of them wrote last in private."""

from __future__ import annotations

from sqlalchemy import Connection

from router import places, texts
from workspace_store.database import now_us

HOUR_US = 3_600_000_000


def disk(connection: Connection, is_short: bool) -> bool:
    """The disk has become full, or is so no more. False: that was told in this hour already, and is to be told later.

    A disk that does both again and again is told of once an hour.
    """
    text = texts.DISK_FULL if is_short else texts.DISK_HAS_ROOM
    key = f"alarm:disk:{'full' if is_short else 'room'}:{now_us() // HOUR_US}"
    told = places.tell_admins(connection, key, text)
    return any(told) or not told
