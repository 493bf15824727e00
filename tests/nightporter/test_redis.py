"""Every process reaches the embedded Valkey, however long the home's path is, or the Redis that is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.redis import async_redis_client, redis_client, socket_path
from tests.nightporter.houses import house


@pytest.mark.parametrize("folder", ["short", "long" * 50])
async def test_both_kinds_of_client(tmp_path: Path, folder: str) -> None:
    home = tmp_path / folder / "home"
    with house(home):
        assert len(socket_path(home)) < 108
        assert redis_client("", home).set("x", 1)
        asynchronous = async_redis_client("", home)
        assert await asynchronous.get("x") == b"1"
        await asynchronous.aclose()


async def test_a_redis_of_ones_own(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with house(home):
        url = f"unix://{home}/run/valkey.sock?db=3"
        assert redis_client(url, Path("/elsewhere"), socket_timeout=3).set("y", 2)
        asynchronous = async_redis_client(url, Path("/elsewhere"))
        assert await asynchronous.get("y") == b"2"
        await asynchronous.aclose()
        assert redis_client("", home).get("y") is None
