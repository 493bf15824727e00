"""The egress proxy as a service: one process on each host, apart from sandboxes, manager and runner.

It alone holds the credentials and the authority's key; what sandboxes send it is read nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from pathlib import Path

import structlog

from sandbox_runner.egress import control, trust
from sandbox_runner.egress.asking import Asker
from sandbox_runner.egress.authority import Authority
from sandbox_runner.egress.budgets import Budgets
from sandbox_runner.egress.clients import Client
from sandbox_runner.egress.control import Listeners
from sandbox_runner.egress.ledger import Ledger
from sandbox_runner.egress.policy import Asking, Policy
from sandbox_runner.egress.proxy import Proxy
from sandbox_runner.egress.resolving import Dialer, Lookup, SystemLookup
from sandbox_runner.egress.settings import EgressSettings
from workspace_store import liveness
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.liveness import Life, Post

log = structlog.get_logger()

ROLE = "egress"
CHECK_SECONDS = 3.0


def build(
    settings: EgressSettings, home: Path, database: Database, ledger: Ledger, *, lookup: Lookup, ask: Asking
) -> Proxy:
    """A proxy from its settings. What few connections need (TLS contexts, the authority) is made when one does."""
    context = functools.cache(lambda: trust.upstream(settings.ca_file))
    authority = functools.cache(lambda: Authority(home / trust.FOLDER))
    policy = Policy(database, settings.rules(), settings.keyring(), ask)
    dialer = Dialer(lookup, settings.private(), context)
    budgets = Budgets(database, ledger, settings.daily_requests, settings.daily_mb << 20)
    return Proxy(policy, dialer, ledger, budgets, authority)


async def serve(
    *,
    home: Path,
    host: str,
    database_url: str,
    settings: EgressSettings,
    resumes: bool,
    ready: Callable[[], None],
) -> None:
    """Serve until SIGTERM. ``resumes``: there is an engine that goes on when a host was allowed."""
    stopping = liveness.stopping_on_signals()
    lives = home / "run" / "lives"
    post = Post(lives, f"{ROLE}-{host}")

    def stand_by() -> None:
        log.info("another egress proxy serves this host; standing by")
        ready()

    if not await post.hold(stopping, stand_by):
        return
    life = Life(lives, ROLE, host)
    database = Database(database_url)
    ledger = Ledger(database, life.id, f"{ROLE}-{host}-")
    lookup = SystemLookup()
    proxy = build(settings, home, database, ledger, lookup=lookup, ask=Asker(database, resumes))
    listeners = Listeners(proxy.serve, functools.partial(_begin, ledger))
    door = await control.listen(control.control_path(home, host))
    parts = [
        asyncio.create_task(control.serve(door, listeners)),
        asyncio.create_task(ledger.keep()),
        asyncio.create_task(_check(proxy.policy, listeners)),
    ]
    await _give_up(ledger)
    ready()
    await liveness.until(stopping, parts)
    door.close()
    parts[0].cancel()
    await listeners.shut()
    for part in parts:
        part.cancel()
    await ledger.flush()
    lookup.close()
    life.end()
    post.leave()
    await asyncio.to_thread(database.close)


async def _give_up(ledger: Ledger) -> None:
    try:
        left = await ledger.give_up_left_over()
    except DatabaseUnavailable as error:
        log.warning("could not look for effects left unfinished", reason=str(error))
        return
    if left:
        log.warning("effects whose end nobody saw", count=left)


async def _begin(ledger: Ledger, client: Client) -> None:
    """What earlier sandboxes of this principal left unfinished will not be settled by anybody."""
    with contextlib.suppress(DatabaseUnavailable):
        await ledger.give_up_before(client.tenancy)


async def _check(policy: Policy, listeners: Listeners) -> None:
    """Break off the connections of sandboxes whose workspace has gone to another, until cancelled."""
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        for client in listeners.busy():
            # With no database to ask, the manager decides: it kills sandboxes that it cannot keep.
            with contextlib.suppress(DatabaseUnavailable):
                if not await policy.is_current(client.tenancy):
                    log.warning("a sandbox lost its workspace; its connections end", sandbox=client.sandbox_id)
                    listeners.close(client.sandbox_id)
