"""The table of services, and the adapters between them and the settings: each service is given just its own sections.

An adapter imports what it calls inside the function only where that is not wanted in every process; what all need is
in ``PRELOAD``, imported once before the forks.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from uuid import UUID

from agent import engines
from agent.embeddings import choosing
from agent.mcp_tools import McpSource
from agent.operator import Operator
from agent.toolbox import Toolbox
from gateway import service as gateway_service
from gateway.email.config import EmailConfig
from gateway.platforms import PlatformSettings
from gateway.settings import EmailSettings
from identity.access import Access
from identity.limits import Limits
from nightporter import texts
from nightporter.approval_hooks import HOOKS
from nightporter.authoring import agents
from nightporter.authoring.agents import Employed
from nightporter.errors import ConfigurationError
from nightporter.service import Service, ServiceContext
from nightporter.settings import Settings
from nightporter.token import ensure_token
from router import service as runner_service
from router.bells import Ringer
from router.inbox import Settling
from router.redis import async_redis_client, redis_client
from sandbox_runner import manager_service
from sandbox_runner.egress import service as egress_service
from sandbox_runner.egress import trust
from sandbox_runner.egress.screening import Screen
from sandbox_runner.folding import Folder
from sandbox_runner.verifying import Verifier
from workspace_store import schema

EGRESS = Service("egress", "nightporter.services:egress", stop_stage=2)
SANDBOX_MANAGER = Service("sandbox-manager", "nightporter.services:sandbox_manager", stop_stage=1, drains=True)
GATEWAY = Service("gateway", "nightporter.services:gateway", sockets=("http", "smtp"))
RUNNER = Service("runner", "nightporter.services:runner", drains=True)

ALL = (EGRESS, SANDBOX_MANAGER, GATEWAY, RUNNER)
RUNNER_AND_SANDBOXES = (EGRESS, SANDBOX_MANAGER, RUNNER)

PRELOAD = (
    "asyncio",
    "aiosmtpd.smtp",
    "blake3",
    "fastcdc",
    "redis.asyncio",
    "rq",
    "sqlmodel",
    "starlette.applications",
    "structlog",
    "uvicorn",
    "zstandard",
)
"""Imported once, by all services used; nothing here may start a thread."""


def sandbox_manager(context: ServiceContext) -> None:
    """Owns this host's warm sandboxes."""
    settings = context.settings
    ringer = Ringer(partial(redis_client, settings.redis_url, settings.home))
    asyncio.run(
        manager_service.serve(
            home=settings.home,
            host=settings.runner.host,
            database_url=settings.database_url,
            storage=settings.kept_in,
            settings=settings.sandbox,
            environment=settings.egress.environment(),
            screen=Screen.of(settings.egress.keyring()),
            ring=ringer.ring,
            ready=context.ready,
        )
    )


def egress(context: ServiceContext) -> None:
    """Lets out of sandboxes what may go, and writes it down."""
    settings = context.settings
    asyncio.run(
        egress_service.serve(
            home=settings.home,
            host=settings.runner.host,
            database_url=settings.database_url,
            settings=settings.egress,
            resumes=settings.engine.model != Operator.name,
            ready=context.ready,
        )
    )


def gateway(context: ServiceContext) -> None:
    """Takes messages in and brings replies out."""
    settings = context.settings
    asyncio.run(
        gateway_service.serve(
            home=settings.home,
            host=settings.runner.host,
            database_url=settings.database_url,
            storage=settings.kept_in,
            connect=partial(redis_client, settings.redis_url, settings.home),
            connect_async=partial(async_redis_client, settings.redis_url, settings.home),
            token=ensure_token(settings),
            public_url=settings.http.public_url.rstrip("/"),
            access=Access(settings.access.policy, settings.access.admins, settings.access.rooms),
            limits=Limits(settings.access.sender_per_minute, settings.access.channel_per_minute),
            http=context.sockets["http"],
            smtp=context.sockets.get("smtp"),
            email=email_config(settings.email),
            files=settings.files,
            platforms=PlatformSettings(
                settings.slack, settings.telegram, frozenset(settings.identity.trusted_slack_teams)
            ),
            incoming=settings.hooks,
            max_hook_bytes=settings.http.max_hook_bytes,
            hooks=HOOKS,
            settling=Settling(settings.router.settle_seconds, settings.router.settle_most_seconds),
            schedules=settings.schedules.limits,
            ready=context.ready,
        )
    )


def runner(context: ServiceContext) -> None:
    """Runs turns."""
    settings = context.settings
    try:
        engine = engines.make(settings.engine)
        judge = engines.make_judge(settings.engine)
    except engines.EngineNotAvailable as error:
        raise ConfigurationError(f"engine.model: {error}") from error
    try:
        embedder = choosing.make(settings.memory, settings.engine, settings.home)
    except choosing.EmbedderNotAvailable as error:
        raise ConfigurationError(f"memory.embeddings: {error}") from error
    employed = _employed(settings)
    asyncio.run(
        runner_service.serve(
            home=settings.home,
            host=settings.runner.host,
            database_url=settings.database_url,
            connect=partial(redis_client, settings.redis_url, settings.home),
            engine=engine,
            patience_seconds=settings.engine.patience_minutes * 60,
            daily_budget_usd=settings.engine.daily_budget_usd,
            message_allow=settings.agent.message_allow,
            folder=Folder(settings.engine.fold_with_model),
            verifier=Verifier(judge, settings.engine.check_timeout_seconds),
            toolbox=employed.toolbox,
            embedder=embedder,
            role=employed.role,
            concurrency=settings.runner.concurrency,
            files=settings.files,
            arrivals=settings.router.arrivals,
            schedules=settings.schedules.limits,
            heartbeat=settings.heartbeat,
            storage=settings.kept_in,
            ready=context.ready,
        )
    )


def _employed(settings: Settings) -> Employed:
    """The agent that the settings name. Raises ConfigurationError for one that cannot be run."""
    blobs = settings.kept_in.blobs()

    async def read_blob(owner: UUID, blob: str) -> bytes:
        return await asyncio.to_thread(blobs.get, owner, blob)

    file = settings.agent.file
    employed = agents.employ(file, read_blob) if file is not None else Employed(Toolbox(), "")
    if not settings.mcp.servers:
        return employed
    return replace(employed, toolbox=replace(employed.toolbox, sources=(McpSource(settings.mcp.servers),)))


def check_agent(settings: Settings) -> None:
    """Raises ConfigurationError where a team's agent cannot be run. Runs its file, so in a process of its own."""
    _employed(settings)


def prepare(settings: Settings) -> None:
    """Bring the database to the schema of this version, and make what sandboxes are to trust.

    Runs in a process of its own before any service. Raises ConfigurationError for storage that cannot be used here.
    """
    if settings.kept_in.is_bucket and find_spec("obstore") is None:
        raise ConfigurationError(texts.no_object_store_client())
    schema.upgrade(settings.database_url)
    trust.prepare(settings.home, terminates=settings.egress.terminates, extra=settings.egress.ca_file)


def email_config(settings: EmailSettings) -> EmailConfig:
    """The section in the form the channel uses."""
    return EmailConfig(
        host=settings.listen.host,
        port=settings.listen.port,
        protocol=settings.protocol,
        address=settings.address,
        relay=settings.relay,
        authentication=settings.authentication,
        dns_server=(settings.dns_server.host, settings.dns_server.port) if settings.dns_server else None,
        authserv_id=settings.authserv_id,
        authserv_peers=settings.authserv_peers,
        fresh_hours=settings.fresh_hours,
        imap_url=settings.imap_url,
        max_bytes=settings.max_bytes,
        reply_all=settings.reply_all,
        plus_addresses=settings.plus_addresses,
        dkim_key=settings.dkim_key,
        dkim_selector=settings.dkim_selector,
        dkim_domain=settings.dkim_domain,
        tls_certificate=settings.tls_certificate,
        tls_key=settings.tls_key,
    )
