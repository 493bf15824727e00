"""The heartbeat: now and then, what a principal's ``HEARTBEAT.md`` says is looked after without anybody having written.

Once each interval whoever has words in that file gets an inbox row, keyed by person and interval: however many runners
look, and whatever restarts, once. The file is read beneath the volume, where a sandbox may be writing; none is woken
for it. What the file says is data: it is nobody's word, and approves nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import structlog
from sqlalchemy import Connection

from identity import reach, users
from identity.users import Claim
from router import heartbeat_texts as texts
from router import own_rows
from router.actions import Woken
from router.envelope import Envelope
from router.settings import HeartbeatSettings
from router.sweeper import Chore
from sandbox_runner.assignments import HEARTBEAT
from workspace_store import inbox, inbox_counts, live, principal
from workspace_store import tenancy as tenancies
from workspace_store.beneath import UnsafePath
from workspace_store.bucket import StoreUnavailable
from workspace_store.database import storable
from workspace_store.outbox import Address
from workspace_store.packs import VolumeError
from workspace_store.volumes import Volumes

log = structlog.get_logger()

FILE = "workspace/HEARTBEAT.md"
MOST_BYTES = 16 << 10
ANY_OTHER_NAME = (-1, -1)
"""Owns nothing: a file with a second name is not read, whoever owns it."""


@dataclass
class Heartbeat:
    """Beats each interval. ``volumes``: the folder of all volumes; ``stored``: what that is a cache of."""

    settings: HeartbeatSettings
    zone: str
    volumes: Path
    clock: Callable[[], float] = time.time
    stored: Volumes | None = None
    _kept: dict[UUID, tuple[str, str]] = field(default_factory=dict)
    """What the file said in a generation, by the digest of that."""
    _looked: int = -1
    _found: dict[UUID, str] = field(default_factory=dict)

    @property
    def chore(self) -> Chore:
        return Chore(self.look, self.beat)

    def look(self, connection: Connection) -> bool:
        """Whether an interval has begun that was not looked at yet, and who has something in the file."""
        slot = self._slot()
        if slot == self._looked or self._is_quiet():
            return False
        everyone = principal.everyone(connection)
        if self.stored is None:
            found = {owner: words for owner in everyone if (words := self._words(owner))}
        else:
            found = self._committed(connection, everyone)
        # Not before it was read: what fails is looked at again.
        self._found, self._looked = found, slot
        return bool(found)

    def beat(self, connection: Connection) -> list[Woken]:
        """An inbox row for each that was found; whose inbox got one."""
        slot = self._slot()
        # In one order, as whoever locks several principals (``principal.in_order``).
        found = sorted(self._found.items())
        return [woken for owner, words in found if (woken := _beat(connection, owner, slot, words))]

    def _slot(self) -> int:
        """Which interval it is. They count from the epoch, so that every runner and every restart has the same."""
        return int(self.clock() // self.settings.seconds)

    def _is_quiet(self) -> bool:
        if self.settings.quiet is None:
            return False
        here = datetime.fromtimestamp(self.clock(), UTC).astimezone(ZoneInfo(self.zone)).time()
        begins, ends = self.settings.quiet
        return begins <= here < ends if begins <= ends else here >= begins or here < ends

    def _committed(self, connection: Connection, everyone: Iterable[UUID]) -> dict[UUID, str]:
        """Whose file says something in their committed generation, and what."""
        found = {}
        for owner in everyone:
            try:
                if words := self._committed_words(connection, owner):
                    found[owner] = words
            except StoreUnavailable as error:
                # The sweeper waits for this, and with it whoever's bell was lost: not for each of them once more.
                log.warning("the object store is away: not every HEARTBEAT.md is read", reason=str(error))
                break
        return found

    def _committed_words(self, connection: Connection, owner: UUID) -> str:
        """What the file says in the committed generation, wherever that was made; read once for each."""
        held = tenancies.look(connection, owner)
        if held.manifest_digest is None or self.stored is None:
            return ""
        digest, words = self._kept.get(owner, ("", ""))
        if digest != held.manifest_digest:
            try:
                with self.stored.open(owner) as volume:
                    volume.refresh()
                    words = _clean(volume.read_file(FILE, held.generation, max_bytes=MOST_BYTES))
            except FileNotFoundError:
                words = ""
            except StoreUnavailable:
                raise
            except (OSError, UnsafePath, VolumeError) as error:
                log.warning("a HEARTBEAT.md is not read", principal=str(owner), reason=str(error))
                return ""
            self._kept[owner] = held.manifest_digest, words
        return words

    def _words(self, owner: UUID) -> str:
        """What the file says; empty: nothing, or nothing that can be read."""
        try:
            folder = os.open(self.volumes / str(owner) / "live", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            return _clean(live.read_file(folder, FILE, MOST_BYTES, ANY_OTHER_NAME))
        except FileNotFoundError:
            return ""
        except (OSError, UnsafePath, VolumeError) as error:
            log.warning("a HEARTBEAT.md is not read", principal=str(owner), reason=str(error))
            return ""
        finally:
            os.close(folder)


def _clean(said: bytes) -> str:
    return storable(said.decode("utf-8", "replace").strip())


def _beat(connection: Connection, owner: UUID, slot: int, words: str) -> Woken | None:
    """None: it was said already, the one before is still worked on, or nobody is there to be answered."""
    key = f"heartbeat:{owner.hex}:{slot}"
    who = users.get(connection, owner)
    if who is None or who.blocked or who.merged_into or inbox.find(connection, key) is not None:
        return None
    if principal.is_closed(connection, owner) or inbox_counts.waiting(connection, owner):
        return None
    last = reach.last(connection, owner)
    if last is None:
        return None
    _, runner = own_rows.put(connection, owner, HEARTBEAT, owner, _told(key, last, words))
    return Woken(owner, runner)


def _told(key: str, to: Address, words: str) -> Envelope:
    return Envelope(
        channel=to.channel,
        account=to.account,
        external_id=key,
        sender=Claim(to.channel, to.account, "", "", ""),
        conversation=to.conversation,
        thread=to.thread,
        text=texts.ASKED,
        context=texts.says(words),
    )
