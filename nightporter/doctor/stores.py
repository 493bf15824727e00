"""Checks of what is needed besides: the database, Redis, DNS."""

from __future__ import annotations

from pathlib import Path

from nightporter import home, valkey
from nightporter.doctor.check import Finding
from nightporter.errors import ConfigurationError
from nightporter.settings import Settings


def database(settings: Settings) -> Finding:
    """Whether it answers; an SQLite file that does not exist yet is made at the first start, not here."""
    import sqlalchemy

    try:
        url = sqlalchemy.make_url(settings.database_url)
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
            return Finding("database", "ok", f"{url.database} will be made at the first start.")
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        engine = sqlalchemy.create_engine(url)
        try:
            with engine.connect() as connection:
                connection.execute(sqlalchemy.text("SELECT 1"))
        finally:
            engine.dispose()
    except Exception as error:  # drivers raise what they like; all of it means the same here
        first = (str(error).splitlines() or [""])[0]
        return Finding("database", "fail", f"It cannot be reached: {first}", "Start it, or correct database_url.")
    return Finding("database", "ok", f"{url.render_as_string(hide_password=True)} answers.")


def storage(settings: Settings) -> Finding:
    """Where volumes and blobs are kept; of an object store, whether it answers and refuses what it must."""
    kept = settings.kept_in
    if not kept.is_bucket:
        return Finding("storage", "ok", f"Volumes are kept in {kept.folder}, blobs in {kept.blobs_folder}.")
    from workspace_store import probing
    from workspace_store.bucket import StoreUnavailable

    try:
        probing.probe(kept.bucket)
    except StoreUnavailable as error:
        return Finding("storage", "fail", f"{error}.", "Correct volumes_url and [storage].")
    except probing.Unfit as error:
        return Finding("storage", "fail", f"{kept.url}: {error}", "Use a store that has conditional writes (If-Match).")
    return Finding(
        "storage",
        "ok",
        f"Volumes and blobs are kept in {kept.url}, which answers and has conditional writes; "
        f"up to {settings.storage.cache_mb:,} MB of them here.",
    )


def redis(settings: Settings) -> Finding:
    """Whether the configured Redis answers, or the embedded Valkey can run."""
    if settings.redis_url:
        return _configured(settings)
    try:
        binary = valkey.server_binary()
    except ConfigurationError as error:
        return Finding("redis", "fail", str(error), "")
    if home.is_up(settings.home) is None:
        return Finding("redis", "ok", f"The embedded Valkey will be started by `up` ({binary.name}).")
    if valkey.answers(settings.home):
        return Finding("redis", "ok", "The embedded Valkey answers.")
    log = valkey.data_folder(settings.home) / "valkey.log"
    return Finding("redis", "fail", "The embedded Valkey does not answer.", f"Look at {log}")


def dns(settings: Settings) -> Finding:
    """Whether DNS answers, by which senders of mail are checked."""
    from gateway.email.proof.lookups import Resolver
    from gateway.email.senders import TryAgain

    email = settings.email
    server = (email.dns_server.host, email.dns_server.port) if email.dns_server else None
    named = str(email.dns_server) if email.dns_server else "the system's DNS server"
    try:
        Resolver(server, seconds=3.0).ask(email.address.rpartition("@")[2], "MX", 3.0)
    except TryAgain:
        return Finding(
            "email.dns_server",
            "warn",
            f"No answer from {named}: mail is put off until it does, except from the owner who logs in.",
            "Set email.dns_server to a server that can be reached.",
        )
    return Finding("email.dns_server", "ok", f"{named} answers.".capitalize())


def _configured(settings: Settings) -> Finding:
    from redis.exceptions import RedisError

    from router.redis import redis_client

    try:
        client = redis_client(settings.redis_url, settings.home, socket_connect_timeout=3, socket_timeout=3)
        version = str(client.info("server")["redis_version"])
    except (RedisError, OSError, ValueError) as error:
        return Finding("redis", "fail", f"It cannot be reached: {error}", "Start it, or correct redis_url.")
    if tuple(int(part) for part in version.split(".")[:2]) < (6, 2):
        return Finding("redis", "fail", f"Version {version} is too old.", "Use Redis 6.2 or newer, or Valkey.")
    return Finding("redis", "ok", f"Version {version} answers.")
