"""A house of stand-in services, a program for the supervisor's tests: ``python standin_house.py [part]``."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from nightporter import logs, supervisor, up
from nightporter.errors import CommandError, ConfigurationError
from nightporter.service import Service, ServiceContext
from nightporter.settings import Settings, load
from router.redis import redis_client


def gateway(context: ServiceContext) -> None:
    listening = context.sockets["http"]
    context.ready()
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n%d" % os.getpid())


def runner(context: ServiceContext) -> None:
    if os.environ.get("STANDIN") == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.environ.get("STANDIN") == "misconfigured":
        raise ConfigurationError("The runner cannot run here; buy another machine.")
    if os.environ.get("STANDIN") == "late":
        signal.pause()
    client = redis_client(context.settings.redis_url, context.settings.home)
    context.ready()
    while True:
        with contextlib.suppress(Exception):
            client.incr("beats")
        time.sleep(0.02)


def sandbox_manager(context: ServiceContext) -> None:
    context.ready()
    while True:
        signal.pause()


def prepare(settings: Settings) -> None:
    if os.environ.get("STANDIN") == "unprepared":
        raise OSError("the disk is full")
    (settings.home / "prepared").write_text(str(os.getpid()))


SERVICES = (
    Service("sandbox-manager", "__main__:sandbox_manager", stop_stage=1),
    Service("gateway", "__main__:gateway", sockets=("http", "smtp")),
    Service("runner", "__main__:runner"),
)

if __name__ == "__main__":
    logs.configure()
    if os.environ.get("STANDIN") == "late":
        supervisor.LATE_SECONDS = 0.2
    part = sys.argv[1:] == ["part"]
    try:
        house = up.House("up", SERVICES[1:2] if part else SERVICES, prepare=prepare, whole=not part)
        sys.exit(up.run(load(), house))
    except CommandError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
