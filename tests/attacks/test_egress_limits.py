"""Going on past a budget, after the workspace has gone to another, and faster than anything can be written down."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.sandbox_runner.egress.servers import plain, server
from tests.sandbox_runner.egress.yard import yard


async def test_more_requests_than_a_day_has(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"], daily_requests=3) as made,
    ):
        statuses = [(await made.get(f"http://{outside.authority}/")).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert outside.connections == 3


async def test_more_bytes_than_a_day_has(tmp_path: Path, sqlite_url: str) -> None:
    large = plain(b"x" * (3 << 20))
    async with (
        server(large) as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"], daily_mb=1) as made,
    ):
        answer = await made.get(f"http://{outside.authority}/")
        assert len(answer.raw) < 2 << 20
        assert (await made.get(f"http://{outside.authority}/")).status == 429
        (effect, _) = await made.effects()
        assert "budget" in effect.reason


async def test_a_budget_outlives_the_proxy(tmp_path: Path, sqlite_url: str) -> None:
    async with server() as outside:
        settings = {"allow": [outside.authority], "allow_private": ["127.0.0.1"], "daily_requests": 2}
        async with yard(tmp_path, sqlite_url, **settings) as made:
            assert [(await made.get(f"http://{outside.authority}/")).status for _ in range(2)] == [200, 200]
        async with yard(tmp_path, sqlite_url, **settings) as made:
            assert (await made.get(f"http://{outside.authority}/")).status == 429


async def test_a_sandbox_whose_workspace_has_gone_to_another(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        assert (await made.get(f"http://{outside.authority}/")).status == 200
        await made.take("manager-b")
        for method in ("GET", "POST"):
            answer = await made.get(f"http://{outside.authority}/", method=method, body=b"x")
            assert answer.error["error"] == "stale_sandbox"
        tunnel, _, _ = await made.tunnel(outside.authority)
        assert tunnel.status == 403
        assert len(outside.seen) == 1


async def test_what_cannot_be_written_down_does_not_go_out(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        (tmp_path / "nightporter.db").rename(tmp_path / "gone.db")
        try:
            answer = await made.get(f"http://{outside.authority}/", method="POST", body=b"x")
            assert answer.error["error"] == "not_recorded"
            assert outside.connections == 0
        finally:
            (tmp_path / "gone.db").rename(tmp_path / "nightporter.db")


async def test_a_flood_of_connections_that_say_nothing(tmp_path: Path, sqlite_url: str) -> None:
    """More than are served at a time: the rest wait, and the next sandbox is served as ever."""
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        silent = [await made.connect() for _ in range(200)]
        other = made.door.open("sandbox-2", made.tenancy, None)
        mine, made.socket = made.socket, other
        assert (await made.get(f"http://{outside.authority}/")).status == 200
        made.socket = mine
        for _, writer in silent:
            writer.close()
        assert (await made.get(f"http://{outside.authority}/")).status == 200


async def test_a_server_that_dies_in_the_middle_of_a_change(tmp_path: Path, sqlite_url: str) -> None:
    """Nobody knows whether it was done: the ledger says so, and so will the turn."""
    async with (
        server(b"") as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        assert (await made.get(f"http://{outside.authority}/", method="POST", body=b"x")).status == 502
        (effect,) = await made.effects()
        assert (effect.status, effect.told) == ("uncertain", False)
        assert [event.kind for event in await made.events("effect.intended", "effect.settled")] == [
            "effect.intended",
            "effect.settled",
        ]


async def test_what_a_proxy_that_was_killed_left_is_uncertain(tmp_path: Path, sqlite_url: str) -> None:
    arrived, never = asyncio.Event(), asyncio.Event()

    async def hang(_: object) -> bytes:
        arrived.set()
        await never.wait()
        return b""

    async with (
        server(hang) as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        asking = asyncio.create_task(made.get(f"http://{outside.authority}/", method="DELETE"))
        async with asyncio.timeout(20):
            await arrived.wait()
        assert [effect.status for effect in await made.effects()] == ["intended"]
        made.ledger.proxy = "egress-here-next"
        assert await made.ledger.give_up_left_over() == 1
        assert [effect.status for effect in await made.effects()] == ["uncertain"]
        asking.cancel()
        never.set()
