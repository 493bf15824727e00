"""The head of a volume in an object store: which generation was handed in last, and what all kept ones are made of.

One small object a volume, changed only where it is as it was read (a conditional write): who has claimed the volume
changes it, so that nobody who claimed it before can any more. What a head does not name may go.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from uuid import UUID

from workspace_store.bucket import Bucket, Conflict
from workspace_store.markers import VolumeDamaged
from workspace_store.volume_rights import VolumeTaken

FORMAT = 1
_MOST_UNHEARD = 32
"""Writes whose answers were lost, any of which may still turn out to be what is there."""


@dataclass(frozen=True)
class Head:
    """``right``: of whoever claimed the volume last, which had this ``epoch``. Nothing of ``packs`` is ever changed."""

    volume: str
    principal: str
    generation: int = 0
    generations: Mapping[int, str] = field(default_factory=dict)
    """The digest of each kept generation's manifest."""
    packs: Mapping[str, int] = field(default_factory=dict)
    """The size of each pack that kept generations are made of."""
    right: str = ""
    epoch: int = 0
    mark: str = ""
    """No two writes have the same."""

    def encoded(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":")).encode()

    @staticmethod
    def decoded(data: bytes, principal: UUID) -> Head:
        """Raises VolumeDamaged."""
        try:
            found = json.loads(data)
            if found.pop("format") != FORMAT:
                raise VolumeDamaged(f"the volume of {principal} was stored by a newer version; upgrade to open it")
            found["generations"] = {int(number): str(digest) for number, digest in found["generations"].items()}
            head = Head(**found)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise VolumeDamaged(f"the stored head of the volume of {principal} cannot be read") from error
        if head.principal != str(principal):
            raise VolumeDamaged(f"the stored head of {principal} is another's")
        return head


class Heads:
    """The head of one volume, as it was read last, and the one that ``live`` here is of. ``folder``: host-side only."""

    def __init__(self, bucket: Bucket, principal: UUID, folder: Path) -> None:
        self._bucket = bucket
        self._principal = principal
        self._name = f"{place(principal)}/head.json"
        self._kept = folder / "head"
        self._tried = folder / "head.tried"
        self._tag: str | None = None
        """Of the head that a write from here replaces."""
        self._kept_tag: str | None = None
        self.head: Head | None = None
        self._unheard = self._read_tried()
        self._load()

    def _load(self) -> None:
        try:
            found = json.loads(self._kept.read_bytes())
            self._tag, self.head = str(found["tag"]), Head.decoded(found["head"].encode(), self._principal)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, VolumeDamaged):
            self._tag = self.head = None
        self._kept_tag = self._tag

    def look(self) -> bool:
        """Read it from the store; whether ``live`` here is of it, or it is one that was tried to be written from here.

        Gives no right: where it is another's by now, a write is refused as before.
        """
        return self._read()[0]

    def read(self) -> bool:
        """The same, for whoever takes the volume: a write replaces what was read.

        Where ``live`` is of another, it has to be laid out before ``keep``.
        """
        in_step, self._tag = self._read()
        if in_step:
            self.keep()
        return in_step

    def _read(self) -> tuple[bool, str | None]:
        found = self._bucket.get(self._name)
        if found is None:
            self.head = None
            return self._kept_tag is None, None
        data, tag = found
        self.head = Head.decoded(data, self._principal)
        return tag == self._kept_tag or data in self._unheard, tag

    def keep(self) -> None:
        """``live`` is of the head that was read."""
        if self.head is None or self._tag is None:
            self._kept.unlink(missing_ok=True)
        elif self._tag != self._kept_tag:
            fresh = self._kept.with_name("head.part")
            fresh.write_text(json.dumps({"tag": self._tag, "head": self.head.encoded().decode()}))
            fresh.rename(self._kept)
        self._kept_tag = self._tag

    def write(self, head: Head) -> None:
        """Replace the head that was seen last. Raises VolumeTaken where it is another by now, StoreUnavailable."""
        head = replace(head, mark=secrets.token_hex(8))
        data = head.encoded()
        self._unheard = [*self._unheard, data][-_MOST_UNHEARD:]
        self._tried.write_bytes(b"\n".join(self._unheard))
        while True:
            try:
                tag = self._bucket.put_if(self._name, data, self._tag)
                break
            except Conflict as error:
                # Also the answer to a write that was repeated, or follows one, whose own success was not heard.
                found = self._bucket.get(self._name)
                if found is None or found[0] not in self._unheard:
                    raise VolumeTaken(
                        f"the volume of {self._principal} has been claimed by another; nothing was stored"
                    ) from error
                tag = found[1]
                if found[0] == data:
                    break
                self._tag = tag
        self.head, self._tag, self._unheard = head, tag, []
        self.keep()

    def _read_tried(self) -> list[bytes]:
        try:
            return self._tried.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []


def place(principal: UUID) -> str:
    """Where in a bucket all of a volume is."""
    return f"volumes/{principal}"


def manifest_name(principal: UUID, number: int, digest: str) -> str:
    return f"{place(principal)}/generations/{number:010d}-{digest}.json"


def exists(bucket: Bucket, principal: UUID) -> Head | None:
    """What is stored of a volume, where anything is. Raises VolumeDamaged."""
    found = bucket.get(f"{place(principal)}/head.json")
    return None if found is None else Head.decoded(found[0], principal)
