"""The proxy, asked over the socket that a sandbox has."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox_runner.egress.servers import plain, server
from tests.sandbox_runner.egress.yard import yard


async def test_an_allowed_host_is_reached_and_the_request_is_recorded(tmp_path: Path, sqlite_url: str) -> None:
    async with (
        server() as outside,
        yard(tmp_path, sqlite_url, allow=[outside.authority], allow_private=["127.0.0.1"]) as made,
    ):
        answer = await made.get(f"http://{outside.authority}/a?b=c")
        assert (answer.status, answer.body) == (200, b"hello from outside\n")
        assert outside.seen[0].first == "GET /a?b=c HTTP/1.1"
        (effect,) = await made.effects()
        assert (effect.method, effect.host, effect.port, effect.status) == ("GET", "127.0.0.1", outside.port, "settled")
        assert (effect.outcome, effect.bytes_in) == (200, 19)


async def test_everything_else_is_refused_with_a_reason_and_a_question(tmp_path: Path, sqlite_url: str) -> None:
    async with yard(tmp_path, sqlite_url) as made:
        await made.hear("please look at the weather")
        answer = await made.get("http://weather.example/")
        assert answer.status == 403
        (asked,) = await made.asked()
        assert answer.error["host"] == "weather.example"
        assert answer.error["approval"] == asked.code
        assert asked.code in answer.error["how"]
        assert made.lookups == []


async def test_what_may_change_something_is_written_down_before_it_goes_out(tmp_path: Path, sqlite_url: str) -> None:
    states: list[str] = []

    async with yard(tmp_path, sqlite_url, allow=["api.example:80"], allow_private=["api.example"]) as made:

        async def look(_: object) -> bytes:
            from workspace_store import effects

            found = await made.database.read(lambda c: effects.recent(c, made.owner, 5))
            states.extend(effect.status for effect in found)
            return plain(b"created", status=b"201 Created")

        async with server(look) as outside:
            made.names["api.example"] = [["127.0.0.1"]]
            made.proxy.policy.rules[0]
            answer = await made.get(f"http://127.0.0.1:{outside.port}/", method="POST", body=b"x")
            assert answer.status == 403
