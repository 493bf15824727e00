"""The Maildir that outgoing mail goes into while no relay is set: written whole or not at all, once for each id."""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from gateway.channel import Outcome, Retry, Sent
from gateway.email.compose import ComposedMail
from workspace_store.packs import sync_folder


@dataclass(frozen=True)
class Maildir:
    """A Maildir (tmp, new, cur) at `path`, made when first needed, readable by its owner only."""

    path: Path

    async def deliver(self, mail: ComposedMail) -> Outcome:
        """Put the mail into `new/`. A second delivery of the same Message-ID, also after a crash, changes nothing."""
        return await asyncio.to_thread(self._deliver, mail)

    def _deliver(self, mail: ComposedMail) -> Outcome:
        name = hashlib.blake2b(mail.message_id.encode(), digest_size=16).hexdigest() + ".nightporter"
        try:
            for folder in ("tmp", "new", "cur"):
                (self.path / folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._holds(name):
                return Sent(str(self.path / "new" / name))
            temporary = self.path / "tmp" / f"{name}.{os.getpid()}"
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(mail.data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, self.path / "new" / name)
            except FileExistsError:
                pass  # another gateway was faster with the same mail
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(self.path / "new")
        except OSError as error:
            return Retry(f"{self.path}: {error.strerror or error}", outage=True)
        return Sent(str(self.path / "new" / name))

    def _holds(self, name: str) -> bool:
        """In `new`, or in `cur` where a mail program moves what was seen, with flags after the name."""
        return (self.path / "new" / name).exists() or any((self.path / "cur").glob(f"{name}*"))
