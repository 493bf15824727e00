"""Only the guest's connection and three standard descriptors get inside."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.testing import shell


async def test_no_descriptor_of_the_host_is_inside(backend: BubblewrapBackend, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    fds = [os.open(secret, os.O_RDONLY), os.open("/", os.O_RDONLY)]
    try:
        for fd in fds:
            os.set_inheritable(fd, True)
        async with shell(backend, tmp_path / "v") as first, shell(backend, tmp_path / "v2", number=2) as second:
            for inside in (first, second):
                lines = await inside.run(
                    "for f in /proc/1/fd/*; do echo ${f##*/} $(readlink $f); done | grep -v /tmp/.output"
                )
                found = dict(line.split(" ", 1) for line in lines.splitlines())
                assert found.pop("0") == found.pop("1") == "/dev/null"
                assert found.pop("2").startswith("pipe:")
                connection = found.pop("3")
                assert connection.startswith("socket:")
                # The guest reads and writes its connection through copies of it.
                assert set(found.values()) <= {connection, "/dev/null"}
            assert os.readlink(f"/proc/{first.sandbox.pid}/fd/3") != os.readlink(f"/proc/{second.sandbox.pid}/fd/3")
    finally:
        for fd in fds:
            os.close(fd)
