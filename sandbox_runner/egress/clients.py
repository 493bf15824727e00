"""Who asks: known by the socket that a connection came through."""

from __future__ import annotations

from dataclasses import dataclass, field

from workspace_store.tenancy import Tenancy


@dataclass
class Client:
    """A sandbox as the proxy knows it: by the socket that the connection came through, never by what it says."""

    sandbox_id: str
    tenancy: Tenancy
    refusals: dict[tuple[str, int, str], int] = field(default_factory=dict)
    connections: int = 0
