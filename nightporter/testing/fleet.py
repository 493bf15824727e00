"""Several hosts on one machine: a gateway and runners, each with a home of its own, on one PostgreSQL, one Redis and
one folder of volumes.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import make_url

from nightporter.testing.house import House
from nightporter.testing.servers import PostgreSQL, Valkey

HOSTS = ("first", "second")


class Fleet:
    """A gateway and a runner a host; ``settings`` are everybody's."""

    house = House
    """What a host is started as."""

    def __init__(self, folder: Path, hosts: Sequence[str] = HOSTS, *, durable: bool = False, **settings: str) -> None:
        self.folder = folder
        self.postgresql = PostgreSQL(durable=durable)
        self.redis = Valkey(folder / "redis")
        self.settings = {
            "database_url": self.postgresql.create(),
            "redis_url": f"unix://{self.redis.socket}",
            "volumes_url": f"file://{folder}/volumes",
            "access__policy": "open",
            **settings,
        }
        self.gateway = self._of("gateway", "gateway")
        self.hosts = {name: self._of(name, "runner") for name in hosts}

    def _of(self, name: str, command: str) -> House:
        house = self.house(self.folder / name, runner__host=name, **self.settings)
        house.command = command
        return house

    def start(self) -> Fleet:
        for house in (self.gateway, *self.hosts.values()):
            house.start()
        return self

    @property
    def conninfo(self) -> str:
        """Of the database, for libpq."""
        return self.postgresql.conninfo(str(make_url(self.settings["database_url"]).database))

    def kill(self, name: str) -> None:
        """SIGKILL to every process of a host at once, as when its power goes."""
        house = self.hosts[name]
        assert house.process is not None
        for pid in [house.process.pid, *house.tree()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        house.kill_everything()

    def stop(self) -> None:
        """Everything, in the order that loses nothing."""
        for house in (self.gateway, *self.hosts.values()):
            house.stop()
        self.redis.stop()
        self.postgresql.stop()

    def __enter__(self) -> Fleet:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
