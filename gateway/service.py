"""The gateway as a service: channels in, delivery out, HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import UUID

import redis
import redis.asyncio
import structlog
import uvicorn
from redis.exceptions import RedisError

from gateway.asking.links import Links, Seals
from gateway.asking.routes import ApprovalPages
from gateway.channel import Channel
from gateway.delivery import Delivery
from gateway.drafts import Drafts
from gateway.email.channel import EmailChannel
from gateway.email.config import EmailConfig
from gateway.email.maildir import Maildir
from gateway.email.pulling import puller_for
from gateway.email.send import SmtpRelay
from gateway.email.senders import senders
from gateway.email.sent_mail import SentMail
from gateway.email.smtp_server import EmailServer
from gateway.fetching import Fetching
from gateway.files import Fetch, Read, reader
from gateway.health import Health
from gateway.hooks.routes import Hooks as HookRoutes
from gateway.local.app import Local
from gateway.local.channel import LocalChannel
from gateway.local.http_protocol import BoundedHttp
from gateway.local.stream import Listeners
from gateway.platforms import PlatformSettings, configured
from gateway.reading import OneReader
from gateway.settings import HookSettings
from identity.access import Access
from identity.limits import Limits
from router import alarms, presence
from router.actions import Woken
from router.bells import Ringer, news
from router.changes import Changes, Recorded
from router.doors import Doors
from router.inbox import Accepted, Inbox, Settling
from router.settings import FilesSettings
from workspace_store import liveness
from workspace_store.approvals import Hooks
from workspace_store.database import Database, sqlite_path
from workspace_store.disk_room import DiskRoom
from workspace_store.liveness import Life
from workspace_store.schedule_limits import ScheduleLimits
from workspace_store.storage import Storage

log = structlog.get_logger()

ROLE = "gateway"
NEWS_RETRY_SECONDS = 0.5
DRAIN_SECONDS = 1.5
BACKLOG = 400
"""Connections that wait to be accepted, which are accepted all at once: descriptors must be left for them."""


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own: the service stops it."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


async def serve(
    *,
    home: Path,
    host: str,
    database_url: str,
    storage: Storage,
    connect: Callable[[], redis.Redis],
    connect_async: Callable[[], redis.asyncio.Redis],
    token: str,
    public_url: str,
    access: Access,
    limits: Limits,
    http: socket.socket,
    smtp: socket.socket | None,
    email: EmailConfig,
    files: FilesSettings,
    platforms: PlatformSettings,
    incoming: Mapping[str, HookSettings],
    max_hook_bytes: int,
    hooks: Hooks,
    settling: Settling,
    schedules: ScheduleLimits,
    ready: Callable[[], None],
) -> None:
    """Serve until SIGTERM: then accept nothing more, finish what is being sent, end."""
    stopping = liveness.stopping_on_signals()
    lives = home / "run" / "lives"
    life = Life(lives, ROLE, host)
    database = Database(database_url)
    ringer = Ringer(connect)
    channels: dict[str, Channel] = {LocalChannel.name: LocalChannel()}
    drafts = Drafts(life.id, database, lives, channels)
    seals = Seals.of(token)
    links = Links(database, seals, public_url) if public_url else None
    delivery = Delivery(life.id, database, lives, channels, frozenset({LocalChannel.name}), drafts, links)
    listeners = Listeners()

    def ring(accepted: Accepted) -> None:
        if accepted.acted:
            delivery.ring()
        else:
            wake(Woken(accepted.principal, accepted.owner, accepted.manager))
        for woken in accepted.woken:
            wake(woken)

    def wake(woken: Woken) -> None:
        # A runner that has the principal in hand sees the message before it lets go.
        if woken.owner is None or not _is_runner(woken.owner) or liveness.is_dead(lives, woken.owner):
            presence.ring(ringer, lives, woken.principal, woken.manager)

    blobs = storage.blobs()
    doors = Doors(email=email.address)
    room = DiskRoom(_written_to(home, database_url), home / "run" / "reserve")
    room.look()
    inbox = Inbox(database, access, ring, hooks, limits, blobs, files.limits, doors, settling, schedules, room)
    mail = _email(email, inbox, home, reader(blobs))
    channels[mail.name] = mail
    mail_server = EmailServer(email, mail.received, token=token)
    if smtp is not None:
        await mail_server.start(smtp)

    def changed(found: Recorded) -> None:
        if found.said:
            delivery.ring()
        for woken in found.woken:
            wake(woken)

    changes = Changes(database, changed, hooks)
    fetchers: dict[str, Fetch] = {}
    fetching = Fetching(life.id, database, lives, fetchers, blobs, files.limits, files.fetch_seconds)
    outside = configured(platforms, fetching.after(inbox.accept), changes, database, life.id, lives, blobs, doors)
    for platform in outside:
        await platform.start()
        channels[platform.name] = platform
        fetchers[platform.name] = platform.fetch
    puller = puller_for(mail, database, OneReader(database, lives, life.id), blobs)

    def wrong() -> list[str]:
        pulling = [puller.wrong] if puller is not None and puller.wrong else []
        return pulling + [word for platform in outside for word in platform.wrong()]

    async def short_of_room(is_short: bool) -> bool:
        told = await database.write(partial(alarms.disk, is_short=is_short))
        delivery.ring()
        return told

    health = Health(database, lives, connect_async, wrong, room)
    local = Local(inbox, database, token, listeners, health, links)
    pages = ApprovalPages(database, hooks, seals, token, public_url.startswith("https:"), wake, delivery.ring)
    delivered = HookRoutes(incoming, database, access, limits, ring, max_hook_bytes)
    of_platforms = (route for platform in outside for route in platform.routes())
    app = local.app([*pages.routes(), *delivered.routes(), *of_platforms])
    config = uvicorn.Config(
        app, http=BoundedHttp, backlog=BACKLOG, log_config=None, access_log=False, lifespan="off",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = _Server(config)
    working = [
        asyncio.create_task(server.serve(sockets=[http])),
        asyncio.create_task(delivery.run()),
        asyncio.create_task(fetching.run()),
        asyncio.create_task(room.keep(short_of_room)),
        asyncio.create_task(_hear(connect_async, delivery, drafts, listeners)),
        *([asyncio.create_task(puller.run())] if puller is not None else []),
    ]
    ready()
    await liveness.until(stopping, working)
    server.should_exit = True
    await mail_server.close(grace=DRAIN_SECONDS)
    mail.senders.close()
    await drafts.close()
    await delivery.drain(DRAIN_SECONDS)
    await asyncio.gather(*(platform.close() for platform in outside), return_exceptions=True)
    await asyncio.wait(working[:1], timeout=DRAIN_SECONDS)
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    life.end()
    ringer.close()
    await asyncio.to_thread(database.close)


def _email(config: EmailConfig, inbox: Inbox, home: Path, files: Read) -> EmailChannel:
    carrier = SmtpRelay(config.relay) if config.relay else Maildir(home / "outgoing-mail")
    sign: Callable[[bytes], bytes] = bytes
    if config.dkim_key:
        from gateway.email.sign import Signer

        sign = Signer.of(config.dkim_key, config.dkim_selector, config.dkim_domain or config.domain).sign
    return EmailChannel(
        config=config,
        accept=inbox.accept,
        senders=senders(config),
        carrier=carrier,
        now=lambda: datetime.now().astimezone(),
        repeats=bool(config.relay),
        sent=SentMail(inbox.database, config.address),
        sign=sign,
        files=files,
    )


def _written_to(home: Path, database_url: str) -> list[Path]:
    """Folders on the disks that a message is written to: the database's first, where it is a file."""
    file = sqlite_path(database_url)
    return [*([file.parent] if file is not None else []), home]


def _is_runner(owner: str) -> bool:
    return owner.startswith("runner-")


async def _hear(
    connect: Callable[[], redis.asyncio.Redis], delivery: Delivery, drafts: Drafts, listeners: Listeners
) -> None:
    """Pass on news as they come; without Redis, polling finds everything but live output."""
    while True:
        try:
            async for principal, told in news(connect):
                _tell(principal, told, delivery, drafts, listeners)
        except (RedisError, OSError) as error:
            log.debug("no news without Redis", reason=str(error))
        except ValueError as error:
            log.warning("news that are none of ours", reason=str(error))
        await asyncio.sleep(NEWS_RETRY_SECONDS)


def _tell(
    principal: UUID, told: Mapping[str, object], delivery: Delivery, drafts: Drafts, listeners: Listeners
) -> None:
    drafts.hear(told)
    if told.get("bell") == "outbox":
        delivery.ring()
    listeners.tell(principal, dict(told))
