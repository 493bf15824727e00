"""Getting out past the proxy, from a real sandbox with its real relay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_runner.bubblewrap import BubblewrapBackend
from sandbox_runner.egress import control, trust
from tests.sandbox_runner.egress.inside import inside
from tests.sandbox_runner.egress.servers import Certificates, plain, server
from tests.sandbox_runner.egress.yard import yard

NOWHERE = """
import socket
def attempt(what, *calls):
    try:
        for call in calls:
            call()
        print(what, "went out")
    except OSError as error:
        print(what, "failed")
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attempt("udp", lambda: udp.sendto(b"x", ("192.0.2.1", 53)))
attempt("tcp", lambda: socket.create_connection(("192.0.2.1", 443), 2))
attempt("tcp6", lambda: socket.create_connection(("2001:db8::1", 443), 2))
attempt("metadata", lambda: socket.create_connection(("169.254.169.254", 80), 2))
attempt("name", lambda: socket.getaddrinfo("example.org", 80))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
"""


async def test_around_the_proxy(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        (its.workspace / "try.py").write_text(NOWHERE)
        said = await its.output("env -u http_proxy -u https_proxy python3 try.py")
        assert said.splitlines() == [f"{what} failed" for what in ("udp", "tcp", "tcp6", "metadata", "name", "raw")]
        assert made.lookups == []


async def test_the_metadata_address_through_the_proxy(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        for url in ("http://169.254.169.254/latest/", "http://[fd00:ec2::254]/", "http://2852039166/"):
            said = await its.output(f"curl -sS -m 10 '{url}'")
            assert "private_address" in said or "bad_host" in said


async def test_a_redirect_followed_by_a_real_program(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    async with server(plain(b"secret")) as private:
        moved = plain(b"", b"Location: http://127.0.0.1:%d/" % private.port, status=b"302 Found")
        async with (
            server(moved) as outside,
            yard(tmp_path, sqlite_url, allow=[f"go.example:{outside.port}"], allow_private=["go.example"]) as made,
            inside(made, backend, tmp_path / "volume") as its,
        ):
            made.names["go.example"] = [["127.0.0.1"]]
            said = await its.output(f"curl -sSL --noproxy '' -m 10 http://go.example:{outside.port}/")
            assert "private_address" in said
            assert private.connections == 0


async def test_the_way_out_of_another_sandbox(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    """Each has a socket of its own: no other is there to be found, and the host lets nobody else connect to it."""
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "one") as its:
        other = made.door.open("other", made.tenancy, None)
        assert await its.output("ls -A /run/nightporter") == "egress.sock"
        assert await its.output(f"test -e {other} || echo absent") == "absent"
        assert await its.output("touch /run/nightporter/egress.sock; rm -f /run/nightporter/egress.sock") != ""
        assert other.stat().st_mode & 0o077 == 0
        assert other.parent.stat().st_mode & 0o077 == 0
        assert control.control_path(tmp_path, "here").stat().st_mode & 0o077 == 0


async def test_credentials_and_keys_are_nowhere_inside(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    secret = "never-inside-0815"
    entry = {"host": "api.example", "value": f"Bearer {secret}", "env": "TOKEN"}
    async with (
        yard(tmp_path, sqlite_url, credentials=[entry]) as made,
        inside(made, backend, tmp_path / "volume") as its,
    ):
        assert "BEGIN CERTIFICATE" in await its.output("head -c 200000 $SSL_CERT_FILE")
        # Written so that the search does not find itself.
        pattern = "never-insid[e]-0815|PRIVATE KEY[-]----"
        found = await its.output(
            f"grep -rlsE '{pattern}' /run /etc /tmp /workspace ~ /opt/nightporter/guest; env | grep -cE '{pattern}'; "
            f"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -cE '{pattern}'"
        )
        assert found.split() == ["0", "0"]
        key = tmp_path / trust.FOLDER / "ca.key"
        assert "No such file" in await its.output(f"cat {key}")


@pytest.mark.slow
async def test_a_flood_of_connections_to_the_relay(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    """The guest that carries them goes on answering, and so does the relay once they are gone."""
    flood = """
import socket, time
held = []
for _ in range(300):
    try:
        held.append(socket.create_connection(("127.0.0.1", 3128), 0.05))
        held[-1].send(b"GET ")
    except OSError:
        pass
print(len(held) > 90)
"""
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[f"f.example:{outside.port}"], allow_private=["f.example"]) as made,
        inside(made, backend, tmp_path / "volume") as its,
    ):
        made.names["f.example"] = [["127.0.0.1"]]
        (its.workspace / "flood.py").write_text(flood)
        assert await its.output("python3 flood.py") == "True"
        assert await its.output("echo alive") == "alive"
        assert "hello from outside" in await its.output(f"curl -sS -m 20 http://f.example:{outside.port}/")


async def test_killing_or_replacing_the_relay(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    """It is in the guest itself: it cannot be killed, and its port is taken before anything else runs."""
    taken = "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 3128))' 2>&1 | tail -1"
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        await its.run("kill -9 1; pkill -9 -f nightporter; true")
        assert "Address already in use" in await its.output(taken)
        assert "host_not_allowed" in await its.output("curl -sS http://x.example/")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives each principal a host user of its own")
async def test_another_host_user_is_not_let_through_the_socket(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume"):
        (socket,) = [path for path in made.socket.parent.iterdir() if path.name.startswith("egress-")]
        assert (socket.stat().st_uid, socket.stat().st_mode & 0o777) == (socket.stat().st_gid, 0o600)
        assert socket.stat().st_uid not in (0, 65534)


async def test_certificates_of_its_own_are_not_believed_outside(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    """What a sandbox trusts is its own affair: the proxy checks servers by the settings alone."""
    certificates = Certificates(tmp_path)
    async with server(tls=certificates.context("api.example")) as outside:
        entry = {"host": f"api.example:{outside.port}", "value": "Bearer secret-value"}
        async with (
            yard(tmp_path, sqlite_url, credentials=[entry], allow_private=["api.example"]) as made,
            inside(made, backend, tmp_path / "volume") as its,
        ):
            made.names["api.example"] = [["127.0.0.1"]]
            (its.workspace / "mine.pem").write_bytes(certificates.path.read_bytes())
            command = f"SSL_CERT_FILE=/workspace/mine.pem curl -sSk -m 20 https://api.example:{outside.port}/"
            assert "certificate" in await its.output(command)
            assert outside.seen == []


async def test_a_refusal_reaches_a_client_that_goes_on_sending(
    tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend
) -> None:
    """The answer is there although megabytes of the request were never read."""
    async with yard(tmp_path, sqlite_url) as made, inside(made, backend, tmp_path / "volume") as its:
        await its.run("head -c 20000000 /dev/zero > big")
        for _ in range(5):
            said = await its.output("curl -sS -m 20 -H 'Expect:' --data-binary @big http://x.example/")
            assert "host_not_allowed" in said
