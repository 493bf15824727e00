"""Files that people send on Slack: fetched with the bot's token from Slack alone, and nothing else taken for a file."""

from __future__ import annotations

import pytest
from aiohttp import web

from gateway.files import Fetched, NoFile, NotYet
from nightporter.testing.slack import SlackServer
from nightporter.testing.web import Fault
from tests.gateway.slack.conftest import House

MOST = 1 << 20


async def test_a_file_is_fetched_with_the_token(at_work: House) -> None:
    at_work.slack.add_file("F1", "a.txt", "text/plain", b"content")
    found = await at_work.channel.fetch("T1", "slack:F1", MOST)
    assert found == Fetched(b"content", "a.txt", "text/plain")


async def test_a_sign_in_page_is_no_file(at_work: House, slack: SlackServer) -> None:
    slack.add_file("F1", "a.txt", "text/plain", b"content")
    slack.add_file("F2", "page.html", "text/html", b"<p>a person's own page")
    slack.sign_in = True
    for file in ("F1", "F2"):
        with pytest.raises(NoFile, match="files:read"):
            await at_work.channel.fetch("T1", f"slack:{file}", MOST)
    slack.sign_in = False
    assert (await at_work.channel.fetch("T1", "slack:F2", MOST)).content == b"<p>a person's own page"


@pytest.mark.parametrize(
    "url", ["http://example.org/x", "https://slack.com.example.org/x", "https://evil.org/slack.com"]
)
async def test_the_token_goes_to_no_other_host(at_work: House, slack: SlackServer, url: str) -> None:
    slack.add_file("F1", "a.txt", "text/plain", b"content")
    slack.files["F1"][0]["url_private"] = url
    with pytest.raises(NoFile, match="another service"):
        await at_work.channel.fetch("T1", "slack:F1", MOST)


async def test_a_redirect_is_not_followed_with_the_token(at_work: House, slack: SlackServer) -> None:
    slack.add_file("F1", "a.txt", "text/plain", b"content")
    slack.fail_files.append(lambda: web.Response(status=302, headers={"Location": f"{slack.origin}/elsewhere"}))
    with pytest.raises(NoFile, match="sign-in"):
        await at_work.channel.fetch("T1", "slack:F1", MOST)


async def test_a_file_that_is_larger_than_it_says_is_not_read_to_its_end(at_work: House, slack: SlackServer) -> None:
    slack.add_file("F1", "a.bin", "application/octet-stream", b"x" * (2 << 20))
    slack.files["F1"][0]["size"] = 5
    with pytest.raises(NoFile, match="larger than"):
        await at_work.channel.fetch("T1", "slack:F1", MOST)


async def test_what_may_pass_is_tried_again_and_what_will_not_is_not(at_work: House, slack: SlackServer) -> None:
    slack.add_file("F1", "a.txt", "text/plain", b"content")
    slack.fail("files.info", Fault("rate_limit", seconds=7), Fault("error"), Fault("refuse", reason="missing_scope"))
    with pytest.raises(NotYet) as asked:
        await at_work.channel.fetch("T1", "slack:F1", MOST)
    assert asked.value.seconds == 7
    with pytest.raises(NotYet):
        await at_work.channel.fetch("T1", "slack:F1", MOST)
    with pytest.raises(NoFile, match="lacks a permission"):
        await at_work.channel.fetch("T1", "slack:F1", MOST)
    slack.fail_files.append(lambda: web.Response(status=503))
    with pytest.raises(NotYet):
        await at_work.channel.fetch("T1", "slack:F1", MOST)
    with pytest.raises(NoFile, match="does not exist"):
        await at_work.channel.fetch("T1", "slack:F404", MOST)


async def test_a_private_answer_with_a_file_goes_to_the_direct_conversation(at_work: House, slack: SlackServer) -> None:
    """An answer to a slash command that only its sender sees can carry no file."""

    async def read(principal: object, file: object) -> bytes:
        return b"content"

    at_work.channel._sender.files = read
    await slack.post(at_work.url, slack.command("$ true"))
    (envelope,) = at_work.book.envelopes.values()
    file = {"name": "a.txt", "content_type": "text/plain", "size": 7, "blob": "0" * 64}
    reply = at_work.book.reply(envelope, "Here is a.txt.", files=[file])
    await at_work.book.deliver(at_work.channel, reply)
    assert at_work.book.settled()
    assert slack.ephemeral == []
    (conversation,) = slack.messages
    assert slack.shared(conversation) == [("a.txt", b"content", "")]
