"""What keeps a channel from working, as the running gateway says it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

from nightporter import home
from nightporter.cli import server
from nightporter.doctor.check import Finding
from nightporter.errors import NotRunning
from nightporter.settings import Settings

SECONDS = 3


def channels(settings: Settings) -> Iterator[Finding]:
    """A line a channel that does not work; nothing where no gateway runs here."""
    if home.is_up(settings.home) is None:
        return
    try:
        found = _ready(server.find(settings))
    except (NotRunning, OSError, http.client.HTTPException, ValueError):
        return
    for problem in found.get("channels", []):
        yield Finding("channels", "warn", str(problem))


def _ready(gateway: server.Server) -> dict[str, list[str]]:
    connection = http.client.HTTPConnection(gateway.address.host, gateway.address.port, timeout=SECONDS)
    try:
        connection.request("GET", "/readyz", headers=gateway.headers)
        found = json.loads(connection.getresponse().read(1 << 20))
        return found if isinstance(found, dict) else {}
    finally:
        connection.close()
