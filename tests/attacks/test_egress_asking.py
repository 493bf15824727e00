"""Getting a host allowed without a person who allowed it, and wearing down the person who is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_runner.egress.naming import hosts_named
from tests.sandbox_runner.egress.servers import server
from tests.sandbox_runner.egress.yard import yard


async def test_asking_a_thousand_times(tmp_path: Path, sqlite_url: str) -> None:
    async with yard(tmp_path, sqlite_url) as made:
        await made.hear("hello")
        for number in range(40):
            assert (await made.get(f"http://host{number}.example/")).status == 403
            assert (await made.get("http://host0.example/again")).status == 403
        asked = await made.asked()
        assert len(asked) == 5
        assert len({str(each.request) for each in asked}) == 5


async def test_asking_again_after_a_no(tmp_path: Path, sqlite_url: str) -> None:
    async with yard(tmp_path, sqlite_url) as made:
        await made.hear("hello")
        await made.allow("nag.example", 0, allowed=False, seconds=3600)
        answer = await made.get("http://nag.example/")
        assert answer.error["error"] == "host_refused"
        assert await made.asked() == []


async def test_a_grant_of_somebody_else_or_for_something_else(tmp_path: Path, sqlite_url: str) -> None:
    async with server() as outside, yard(tmp_path, sqlite_url, allow_private=["*.grant.example"]) as made:
        made.names["a.grant.example"] = made.names["b.grant.example"] = [["127.0.0.1"]]
        await made.allow("a.grant.example", outside.port)
        assert (await made.get(f"http://a.grant.example:{outside.port}/")).status == 200
        assert (await made.get(f"http://b.grant.example:{outside.port}/")).status == 403
        assert (await made.get(f"http://a.grant.example:{outside.port + 1}/")).status == 403
        assert (await made.get("http://a.grant.example/")).status == 403
        assert outside.connections == 1


async def test_a_grant_that_has_ended(tmp_path: Path, sqlite_url: str) -> None:
    async with server() as outside, yard(tmp_path, sqlite_url, allow_private=["a.example"]) as made:
        await made.allow("a.example", outside.port, seconds=-1)
        assert (await made.get(f"http://a.example:{outside.port}/")).status == 403


async def test_a_grant_never_opens_what_is_private(tmp_path: Path, sqlite_url: str) -> None:
    async with server() as outside, yard(tmp_path, sqlite_url) as made:
        made.names["inside.example"] = [["127.0.0.1"]]
        await made.allow("inside.example", outside.port)
        assert (await made.get(f"http://inside.example:{outside.port}/")).error["error"] == "private_address"
        assert outside.connections == 0


async def test_a_host_that_the_persons_own_message_names(tmp_path: Path, sqlite_url: str) -> None:
    async with server() as outside, yard(tmp_path, sqlite_url, allow_private=["*.example"]) as made:
        made.names["named.example"] = made.names["sub.named.example"] = [["127.0.0.1"]]
        url = f"http://named.example:{outside.port}/"
        message = await made.hear(f"Please look at {url}page for me.")
        assert (await made.get(url)).status == 200
        assert (await made.get(url, method="POST", body=b"x")).status == 403, "asking is not changing"
        assert (await made.get(f"http://sub.named.example:{outside.port}/")).status == 403
        assert (await made.get(f"http://named.example:{outside.port + 1}/")).status == 403
        await made.finish(message)
        assert (await made.get(url)).status == 403, "only while that turn runs"
        assert outside.connections == 1


async def test_a_host_that_somebody_elses_words_name(tmp_path: Path, sqlite_url: str) -> None:
    """Quoted mail is context, and never counts as the person's word."""
    async with server() as outside, yard(tmp_path, sqlite_url, allow_private=["*.example"]) as made:
        made.names["quoted.example"] = [["127.0.0.1"]]
        url = f"http://quoted.example:{outside.port}/"
        await made.hear("What does this mail want?", context=f"Click {url} now!")
        assert (await made.get(url)).status == 403
        assert outside.connections == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("look at https://example.org/page", {("example.org", 443)}),
        ("look at http://example.org.", {("example.org", 80), ("example.org", 443)}),
        ("(https://EXAMPLE.org/x)", {("example.org", 443)}),
        ("see [this](https://example.org/a)", {("example.org", 443)}),
        ("is example.org:8443 up?", {("example.org", 8443)}),
        ("https://example.org:8443/", {("example.org", 8443)}),
        # What names nothing: files, addresses of mail, parts of other names, others' words, commands.
        ("run main.py and read README.md", set()),
        ("tell me of example.org", set()),
        ("write to ann@example.org", set()),
        ("https://example.org@evil.example/", set()),
        ("https://user:pass@example.org/", set()),
        ("https://2130706433/", set()),
        ("> https://example.org/", set()),
        ("```\nhttps://example.org/\n```", set()),
        ("the word `https://example.org/` in code", set()),
        ("$ curl https://example.org/", set()),
        ("/egress https://example.org/", set()),
        ("nothttps://example.org/", set()),
    ],
)
def test_what_a_message_names(text: str, named: set[tuple[str, int]]) -> None:
    assert hosts_named(text) == named
