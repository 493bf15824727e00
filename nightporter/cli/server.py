"""Where the running gateway is and how to speak to it: address and token of this home."""

from __future__ import annotations

from dataclasses import dataclass

from nightporter import home
from nightporter.cli import texts
from nightporter.errors import NotRunning
from nightporter.settings import Settings
from nightporter.token import read_token
from workspace_store.section import Address

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class Server:
    """The gateway of this home."""

    address: Address
    token: str

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


def find(settings: Settings) -> Server:
    """The gateway that the settings name; ``NotRunning`` when it was never started."""
    token = read_token(settings)
    if token is None:
        raise NotRunning(texts.never_started(settings.home))
    return Server(address(settings), token)


def address(settings: Settings) -> Address:
    """Where to reach HTTP: where the ``up`` of this home said that it listens, else what the settings say."""
    found = settings.http.listen
    recorded = home.read_listening(settings.home).get("http")
    if recorded is not None and (found.port == 0 or home.is_up(settings.home) is not None):
        # Its own environment may have named another address than ours does.
        found = Address.parse(recorded)
    elif found.port == 0:
        raise NotRunning(texts.not_running(settings.home))
    return Address(ANYWHERE.get(found.host, found.host), found.port)
