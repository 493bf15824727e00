"""Deliveries through the Events API and Socket Mode: recorded once, acknowledged only then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

from gateway.slack.channel import SlackChannel
from gateway.slack.config import SlackConfig
from nightporter.testing.book import Book
from nightporter.testing.slack import BOT_TOKEN, SIGNING_SECRET, SlackServer, sign
from nightporter.testing.web import until
from router.envelope import Envelope

from .conftest import House, serving


async def test_a_message_is_recorded_before_it_is_acknowledged(at_work: House) -> None:
    body = at_work.slack.message("hello")
    assert await at_work.slack.post(at_work.url, body) == (200, "")
    (envelope,) = at_work.book.envelopes.values()
    assert (envelope.text, envelope.conversation, envelope.thread) == ("hello", "D1", "")
    assert (envelope.sender.account, envelope.sender.external_id, envelope.sender.proof) == ("T1", "UANN", "platform")
    assert envelope.dedupe_key == f"slack:T1:D1:{body['event']['ts']}"


async def test_without_a_database_slack_is_told_to_try_again(at_work: House) -> None:
    at_work.book.down = 1
    body = at_work.slack.message("hello")
    assert (await at_work.slack.post(at_work.url, body))[0] == 503
    assert (await at_work.slack.post(at_work.url, body))[0] == 200
    assert at_work.book.texts == ["hello"]


async def test_a_redelivery_and_a_twin_are_one_message(at_work: House) -> None:
    body = at_work.slack.message("<@UAGENT> hi", channel="C1", channel_type="channel")
    twin = at_work.slack.event({**body["event"], "type": "app_mention"})
    for delivery in (body, body, twin):
        assert (await at_work.slack.post(at_work.url, delivery))[0] == 200
    assert at_work.book.texts == ["hi"]


async def test_one_gesture_under_two_timestamps_is_one_message(at_work: House) -> None:
    for _ in range(2):
        await at_work.slack.post(at_work.url, at_work.slack.message("once", client_msg_id="c-1"))
    assert at_work.book.texts == ["once"]


async def test_wrong_signatures_and_old_requests_are_refused(at_work: House) -> None:
    body = at_work.slack.message("hello")
    assert (await at_work.slack.post(at_work.url, body, secret="other"))[0] == 401
    assert (await at_work.slack.post(at_work.url, body, age=600))[0] == 401
    assert at_work.book.texts == []


async def test_the_challenge_is_answered(at_work: House) -> None:
    assert await at_work.slack.post(at_work.url, {"type": "url_verification", "challenge": "c123"}) == (200, "c123")


async def test_a_thread_of_the_agent_needs_no_mention_also_after_a_restart(at_work: House) -> None:
    reply = at_work.slack.message("and now?", channel="C1", thread_ts="5.1")
    await at_work.slack.post(at_work.url, reply)
    assert at_work.book.texts == []
    at_work.book.threads.add(("T1", "C1", "5.1"))
    await at_work.slack.post(at_work.url, reply)
    assert at_work.book.texts == ["and now?"]


async def test_edits_deletions_and_reactions_are_changes_of_a_message(at_work: House) -> None:
    old = {"user": "UANN", "ts": "5.1", "text": "a"}
    new = {**old, "text": "b", "edited": {"user": "UANN", "ts": "6.1"}}
    about = {"type": "message", "channel": "D1", "channel_type": "im", "previous_message": old}
    item = {"type": "message", "channel": "D1", "ts": "4.1"}
    for event in (
        {**about, "subtype": "message_changed", "message": new},
        {**about, "subtype": "message_deleted", "deleted_ts": "5.1"},
        {"type": "reaction_added", "user": "UANN", "reaction": "+1", "item": item, "item_user": "UAGENT"},
    ):
        assert (await at_work.slack.post(at_work.url, at_work.slack.event(event)))[0] == 200
    edit, delete, reaction = at_work.book.changes
    assert (edit.kind, edit.message, edit.text) == ("edit", "slack:T1:D1:5.1", "b")
    assert (delete.kind, delete.message) == ("delete", "slack:T1:D1:5.1")
    assert (reaction.kind, reaction.emoji, reaction.target) == ("reaction", "+1", "4.1")
    assert at_work.book.texts == []


async def test_buttons_and_slash_commands_become_commands(at_work: House) -> None:
    asked = {"ts": "4.1", "text": "Allow it?"}
    await at_work.slack.post(at_work.url, at_work.slack.pressed("approve", "ab12", asked))
    await at_work.slack.post(at_work.url, at_work.slack.command("status"))
    await at_work.slack.post(at_work.url, at_work.slack.command("plan a trip"))
    await at_work.slack.post(at_work.url, at_work.slack.command(""))
    assert at_work.book.texts == ["/approve ab12", "/status", "plan a trip", "/help"]


async def test_another_workspace_is_not_heard(at_work: House) -> None:
    body = {**at_work.slack.message("hello"), "team_id": "T9", "authorizations": [{"team_id": "T9"}]}
    assert (await at_work.slack.post(at_work.url, body))[0] == 200
    assert at_work.book.texts == []


async def test_what_nobody_knows_is_acknowledged(at_work: House) -> None:
    assert (await at_work.slack.post(at_work.url, at_work.slack.event({"type": "of_the_future"})))[0] == 200
    assert (await at_work.slack.post(at_work.url, {"type": "of_the_future", "team_id": "T1"}))[0] == 200


async def test_an_assistant_thread_is_welcomed(at_work: House) -> None:
    thread = {"user_id": "UANN", "channel_id": "D1", "thread_ts": "7.1"}
    event = at_work.slack.event({"type": "assistant_thread_started", "assistant_thread": thread})
    await at_work.slack.post(at_work.url, event)
    await until(lambda: at_work.slack.said("assistant.threads.setSuggestedPrompts"), "prompts are suggested")
    await at_work.slack.post(at_work.url, at_work.slack.message("hi", thread_ts="7.1"))
    await until(lambda: at_work.slack.said("assistant.threads.setStatus"), "a status is shown")


async def test_socket_mode_acknowledges_only_what_is_recorded(on_socket: House) -> None:
    slack, book = on_socket.slack, on_socket.book
    await until(lambda: slack.connections, "a connection")
    book.down = 1
    body = slack.message("hello")
    lost = await slack.push(body)
    await until(lambda: book.down == 0, "the first try")
    again = await slack.push(body, attempt=1)
    await until(lambda: again in slack.acknowledged, "an acknowledgement")
    assert lost not in slack.acknowledged
    assert book.texts == ["hello"]


@pytest.mark.slow
async def test_socket_mode_survives_refresh_and_loss(on_socket: House) -> None:
    slack = on_socket.slack
    for number, trouble in enumerate((slack.refresh, slack.drop)):
        await until(lambda: slack.connections == 1, "one connection")
        (old,) = slack._sockets
        await trouble()
        # Only the new one: what is pushed to the old would be lost with it, and Slack would deliver it again.
        await until(lambda old=old: slack.connections == 1 and slack._sockets[0] is not old, "a new connection", 30)
        envelope = await slack.push(slack.message(f"after {number}"))
        await until(lambda envelope=envelope: envelope in slack.acknowledged, "an acknowledgement")
    assert on_socket.book.texts == ["after 0", "after 1"]


async def test_slash_commands_and_buttons_over_socket_mode(on_socket: House) -> None:
    slack = on_socket.slack
    await until(lambda: slack.connections, "a connection")
    await slack.push(slack.command("status"))
    await slack.push(slack.pressed("deny", "ab12", {"ts": "4.1", "text": "Allow it?"}))
    await until(lambda: len(slack.acknowledged) == 2, "two acknowledgements")
    assert on_socket.book.texts == ["/status", "/deny ab12"]


async def test_what_cannot_be_recorded_is_kept_aside_and_acknowledged(slack: SlackServer) -> None:
    book, aside = Book(), []

    async def accept(envelope: Envelope) -> None:
        raise ValueError("no")

    async def quarantine(delivery: Mapping[str, Any], why: str) -> None:
        aside.append((delivery["event"]["text"], why))

    config = SlackConfig(BOT_TOKEN, "", SIGNING_SECRET, slack.api_url)
    channel = SlackChannel(config, accept, book, book.takes_part, book.changed, quarantine)
    await channel.start()
    async with serving(channel) as url:
        assert (await slack.post(url, slack.message("poison")))[0] == 200
    assert aside == [("poison", "ValueError: no")]


@pytest.mark.parametrize("raw", ["", "{", "[]", "null", "payload=%7B", "[" * 50_000, "\x00"])
async def test_hostile_bodies_are_no_server_errors(at_work: House, raw: str) -> None:
    headers = {"Content-Type": "application/json", **sign(raw, SIGNING_SECRET, int(time.time()))}
    async with aiohttp.ClientSession() as session, session.post(at_work.url, data=raw.encode(), headers=headers) as got:
        assert got.status < 500
    async with aiohttp.ClientSession() as session, session.post(at_work.url, data=raw.encode()) as got:
        assert 400 <= got.status < 500
