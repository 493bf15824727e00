"""What the manager needs of egress: a socket for each sandbox, which alone says who it is."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from workspace_store.tenancy import Tenancy


class WayOut(Protocol):
    """The only way out of sandboxes."""

    @property
    def trust_bundle(self) -> Path | None:
        """Certificates for sandboxes to trust in place of the system's; None: the system's do."""
        ...

    def open(self, sandbox_id: str, tenancy: Tenancy, uid: int | None) -> Path:
        """A socket for one sandbox, which only ``uid`` may connect to (None: ourselves)."""
        ...

    def close(self, sandbox_id: str) -> None:
        """The sandbox is gone. Idempotent."""
        ...
