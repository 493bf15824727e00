"""Who speaks and from where: names, several workspaces, strangers of Slack Connect, the assistant's pane."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from gateway.slack import people as people_module
from gateway.slack.channel import SlackChannel
from gateway.slack.config import SlackConfig
from nightporter.testing.book import Book
from nightporter.testing.slack import BOT_TOKEN, SIGNING_SECRET, SlackServer
from nightporter.testing.web import Fault, until

from .conftest import House, serving


def ann(**more: Any) -> dict[str, Any]:
    return {"id": "UANN", "team_id": "T1", "profile": {"display_name": "Ann  Other", "real_name": "Ann O."}, **more}


async def test_a_name_is_asked_once_and_never_decides_who_it_is(at_work: House) -> None:
    at_work.slack.people["UANN"] = ann()
    for text in ("one", "two"):
        await at_work.slack.post(at_work.url, at_work.slack.message(text))
    senders = [envelope.sender for envelope in at_work.book.envelopes.values()]
    assert [sender.display for sender in senders] == ["Ann Other", "Ann Other"]
    assert {(sender.account, sender.external_id) for sender in senders} == {("T1", "UANN")}
    assert len(at_work.slack.said("users.info")) == 1


async def test_a_slow_or_refused_name_holds_no_message_up(at_work: House, monkeypatch: Any) -> None:
    monkeypatch.setattr(people_module, "NAME_SECONDS", 0.05)
    at_work.slack.fail("users.info", Fault("rate_limit", seconds=60))
    began = time.monotonic()
    await at_work.slack.post(at_work.url, at_work.slack.message("one"))
    await at_work.slack.post(at_work.url, at_work.slack.message("two"))
    assert time.monotonic() - began < 5
    assert at_work.book.texts == ["one", "two"]
    assert len(at_work.slack.said("users.info")) == 1, "not asked again at once"


async def test_a_stranger_of_slack_connect_is_a_person_of_their_own_workspace(at_work: House) -> None:
    at_work.slack.people["UEXT"] = {"id": "UEXT", "team_id": "T9", "is_stranger": True, "profile": {"real_name": "Eve"}}
    body = at_work.slack.message("<@UAGENT> hi", channel="C1", user="UEXT", user_team="T9", source_team="T9")
    await at_work.slack.post(at_work.url, {**body, "is_ext_shared_channel": True})
    (envelope,) = at_work.book.envelopes.values()
    assert (envelope.sender.account, envelope.sender.external_id) == ("T9", "UEXT")
    assert (envelope.account, envelope.sender.vouched_mail) == ("T1", "")


async def test_each_workspace_is_answered_with_its_own_token() -> None:
    async with SlackServer() as slack:
        slack.workspaces = {BOT_TOKEN: ("T1", "UAGENT", "BAGENT"), "xoxb-second": ("T2", "UAGENT2", "BAGENT2")}
        book = Book()
        config = SlackConfig(f"{BOT_TOKEN} xoxb-second", "", SIGNING_SECRET, slack.api_url)
        channel = SlackChannel(config, book.accept, book, book.takes_part, book.changed)
        await channel.start()
        async with serving(channel) as url:
            for team, agent in (("T1", "UAGENT"), ("T2", "UAGENT2")):
                body = slack.message(f"<@{agent}> hi", channel="C1")
                await slack.post(
                    url, {**body, "team_id": team, "authorizations": [{"team_id": team, "user_id": agent}]}
                )
            for envelope in list(book.envelopes.values()):
                await book.deliver(channel, book.reply(envelope, "hello"))
            assert [envelope.account for envelope in book.envelopes.values()] == ["T1", "T2"]
            posted = [token for method, token in slack.tokens if method == "chat.postMessage"]
            assert posted == [BOT_TOKEN, "xoxb-second"]
            await slack.post(url, {**slack.event({"type": "app_uninstalled"}), "team_id": "T2",
                                   "authorizations": [{"team_id": "T2", "user_id": "UAGENT2"}]})  # fmt: skip
            assert [word.partition(":")[0] for word in channel.wrong()] == ["T2"]
            first = next(iter(book.envelopes.values()))
            assert (await book.deliver(channel, book.reply(first, "still here"))) is book.settled()


async def test_the_assistants_thread_has_a_status_a_title_and_knows_where_people_look(at_work: House) -> None:
    thread = {"user_id": "UANN", "channel_id": "D1", "thread_ts": "7.1", "context": {"channel_id": "C5"}}
    await at_work.slack.post(
        at_work.url, at_work.slack.event({"type": "assistant_thread_started", "assistant_thread": thread})
    )
    await until(lambda: at_work.slack.said("assistant.threads.setSuggestedPrompts"), "prompts")
    thread["context"] = {"channel_id": "C6"}
    await at_work.slack.post(
        at_work.url, at_work.slack.event({"type": "assistant_thread_context_changed", "assistant_thread": thread})
    )
    await until(lambda: len(at_work.slack.said("assistant.threads.setSuggestedPrompts")) == 2, "prompts anew")
    assert at_work.book.envelopes == {}
    for text in ("what is new here?", "and then?"):
        await at_work.slack.post(at_work.url, at_work.slack.message(text, thread_ts="7.1"))
    await until(lambda: len(at_work.slack.said("assistant.threads.setStatus")) == 2, "a status each")
    await asyncio.sleep(0.05)
    (titled,) = at_work.slack.said("assistant.threads.setTitle")
    assert titled["title"] == "what is new here?"
    assert "C6" in next(iter(at_work.book.envelopes.values())).context
