"""No network: loopback of its own, no packet, raw or vsock sockets, no abstract sockets of the host."""

from __future__ import annotations

import os
import socket

import pytest

from sandbox_runner.testing import Shell

OPEN = """
import errno, socket
try:
    socket.socket({family}, {kind}, {protocol})
    print("opened")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@pytest.mark.parametrize(
    ("family", "kind", "protocol", "refusal"),
    [
        ("socket.AF_PACKET", "socket.SOCK_RAW", 0, "EAFNOSUPPORT"),
        ("socket.AF_VSOCK", "socket.SOCK_STREAM", 0, "EAFNOSUPPORT"),
        ("38", "socket.SOCK_SEQPACKET", 0, "EAFNOSUPPORT"),  # AF_ALG
        ("29", "socket.SOCK_RAW", 1, "EAFNOSUPPORT"),  # AF_CAN
        ("socket.AF_INET", "socket.SOCK_RAW", 1, "EPERM"),
        ("socket.AF_INET6", "socket.SOCK_RAW", 58, "EPERM"),
        ("socket.AF_INET", "socket.SOCK_STREAM", 132, "EPROTONOSUPPORT"),  # SCTP
        ("socket.AF_NETLINK", "socket.SOCK_RAW", 12, "EPROTONOSUPPORT"),  # NETLINK_NETFILTER
        ("socket.AF_INET", "socket.SOCK_STREAM", 0, "opened"),
        ("socket.AF_UNIX", "socket.SOCK_STREAM", 0, "opened"),
    ],
)
async def test_socket(inside: Shell, family: str, kind: str, protocol: int, refusal: str) -> None:
    assert await inside.python(OPEN.format(family=family, kind=kind, protocol=protocol)) == refusal


async def test_only_loopback(inside: Shell) -> None:
    assert await inside.python("import socket; print([name for _, name in socket.if_nameindex()])") == "['lo']"
    assert "unreachable" in await inside.run("exec 3<>/dev/tcp/192.0.2.1/80")


async def test_a_server_of_the_host_on_loopback_is_not_reached(inside: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
        assert "refused" in await inside.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")


async def test_abstract_socket_of_the_host_is_not_reached(inside: Shell) -> None:
    name = f"\0nightporter-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(name)
        server.listen()
        client.connect(name)
        program = f"import socket\nsocket.socket(socket.AF_UNIX).connect({name!r})"
        assert "refused" in await inside.python(program)
