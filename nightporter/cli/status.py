"""``nightporter status``: what runs and what waits, asked of the gateway with the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
from typing import Any

from nightporter import home
from nightporter.cli import server, texts, wiring
from nightporter.errors import FAILED, NOT_RUNNING, CommandError
from nightporter.settings import Settings, load
from nightporter.token import read_token

_TIMEOUT_SECONDS = 3


def run(*, as_json: bool) -> int:
    """Print it; 0 all is ready, 1 something is not, 3 nothing runs."""
    settings = load()
    found: dict[str, Any] = {"home": str(settings.home), "up": home.is_up(settings.home), "running": False}
    if settings.heartbeat.every:
        found["heartbeat"] = {"every": settings.heartbeat.every, "quiet_hours": settings.heartbeat.quiet_hours}
    token = read_token(settings)
    if token is not None and (settings.http.listen.port or home.read_listening(settings.home)):
        gateway = server.find(settings)
        found["http"] = gateway.url
        lives = _get(gateway, "/healthz") is not None
        code, body = (_get(gateway, "/readyz") or (503, b"")) if lives else (0, b"")
        # Who does not know our token is another home, or another program altogether.
        if code in (200, 503):
            found |= {"running": True, "ready": code == 200, "missing": _names(body, "missing")}
            found["channels"] = _names(body, "channels") if body else []
            found["figures"] = _figures(_get(gateway, "/metrics"))
            found["undelivered"] = _undelivered(settings, found["figures"])
    if as_json:
        json.dump(found, sys.stdout)
        print()
    else:
        print(texts.status(found))
    if not found["running"]:
        return NOT_RUNNING
    return 0 if found["ready"] else FAILED


def _get(gateway: server.Server, path: str) -> tuple[int, bytes] | None:
    connection = http.client.HTTPConnection(gateway.address.host, gateway.address.port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", path, headers=gateway.headers)
        answer = connection.getresponse()
        return answer.status, answer.read(1 << 20)
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _names(body: bytes, what: str) -> list[str]:
    try:
        names = json.loads(body)[what]
    except (ValueError, KeyError, TypeError):
        return ["an answer that can be read"]
    return [str(name) for name in names]


def _undelivered(settings: Settings, figures: dict[str, float]) -> list[dict[str, Any]]:
    """Dead letters with their reasons, and what possibly went out twice; the database is read only if there are any."""
    telling = ("dead", "possibly_repeated")
    if not any(figures.get(f'outbox_replies{{status="{status}"}}') for status in telling):
        return []
    with contextlib.suppress(CommandError):  # the figures are there all the same
        return wiring.undelivered(settings)
    return []


def _figures(metrics: tuple[int, bytes] | None) -> dict[str, float]:
    """Nightporter's own figures by name, as Prometheus would read them."""
    found: dict[str, float] = {}
    if metrics is None or metrics[0] != 200:
        return found
    for line in metrics[1].decode("utf-8", "replace").splitlines():
        name, _, value = line.rpartition(" ")
        if line.startswith("nightporter_") and name:
            found[name.removeprefix("nightporter_")] = float(value)
    return found
