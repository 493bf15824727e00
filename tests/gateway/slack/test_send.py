"""Replies to Slack: each message once, in its place, whatever the network does."""

from __future__ import annotations

from gateway.channel import Refused, Retry, Sent, Uncertain
from nightporter.testing.book import Book
from nightporter.testing.slack import SlackServer
from nightporter.testing.web import Fault
from router.envelope import Envelope
from workspace_store.database import DatabaseUnavailable

from .conftest import House, house


async def heard(at_work: House, text: str = "hello", **more: object) -> Envelope:
    await at_work.slack.post(at_work.url, at_work.slack.message(text, **more))
    return list(at_work.book.envelopes.values())[-1]


def shown(slack: SlackServer, channel: str = "D1") -> list[str]:
    return [message["text"] for message in slack.messages.get(channel, [])]


async def test_a_reply_goes_where_it_was_asked(at_work: House) -> None:
    envelope = await heard(at_work, "<@UAGENT> hi", channel="C1", ts="5.1")
    reply = at_work.book.reply(envelope, "**done** <!channel>")
    await at_work.book.deliver(at_work.channel, reply)
    (posted,) = at_work.slack.said("chat.postMessage")
    assert (posted["channel"], posted["thread_ts"]) == ("C1", "5.1")
    assert posted["text"] == "*done* &lt;!channel&gt;"
    assert posted["metadata"]["event_payload"] == {"reply": reply.id.hex, "part": 0}
    assert at_work.book.settled().external_id == at_work.slack.messages["C1"][0]["ts"]


async def test_a_lost_answer_is_found_by_reading_back(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.slack.fail("chat.postMessage", Fault("lose_response"))
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "one answer"))
    assert shown(at_work.slack) == ["one answer"]
    assert isinstance(at_work.book.outcomes[0], Uncertain)
    assert at_work.book.settled() == Sent(at_work.slack.messages["D1"][0]["ts"], repeated=False)


async def test_a_lost_answer_in_a_thread_is_found_too(at_work: House) -> None:
    envelope = await heard(at_work, thread_ts="3.1")
    at_work.slack.fail("chat.postMessage", Fault("lose_response"))
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "one answer"))
    assert shown(at_work.slack) == ["one answer"]
    assert at_work.slack.said("conversations.replies")


async def test_a_lost_request_and_a_server_error_are_sent_once(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.slack.fail("chat.postMessage", Fault("lose_request"), Fault("error", status=502))
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "one answer"))
    assert shown(at_work.slack) == ["one answer"]
    assert not at_work.book.settled().repeated


async def test_where_reading_back_is_not_allowed_it_is_said_to_be_repeated(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.slack.fail("chat.postMessage", Fault("lose_response"))
    at_work.slack.fail("conversations.history", Fault("refuse", reason="missing_scope"))
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "answer"))
    assert at_work.book.settled().repeated


async def test_a_crash_in_the_middle_repeats_nothing(at_work: House) -> None:
    envelope = await heard(at_work)
    reply = at_work.book.reply(envelope, "\n\n".join(f"Paragraph {number} " + "word " * 600 for number in range(4)))
    at_work.slack.fail("chat.postMessage", *[Fault("lose_response")] * 4)
    await at_work.book.deliver(at_work.channel, reply)
    texts = shown(at_work.slack)
    assert [text.split()[1] for text in texts] == ["0", "1", "2", "3"]
    assert len(str(at_work.book.settled().external_id).split()) == 4


async def test_slack_asks_to_wait(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.slack.fail("chat.postMessage", Fault("rate_limit", seconds=7))
    assert await at_work.channel.send(at_work.book.reply(envelope, "x")) == Retry("Slack asks to wait", 7.0)


async def test_what_slack_refuses_for_good_is_a_dead_letter_with_a_reason(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.slack.fail("chat.postMessage", Fault("refuse", reason="is_archived"))
    assert await at_work.channel.send(at_work.book.reply(envelope, "x")) == Refused(
        "is_archived: the channel is archived"
    )


async def test_a_refused_form_falls_back_to_plain_text(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.slack.fail("chat.postMessage", Fault("refuse", reason="msg_too_long"))
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "**bold** [x](https://e.com)"))
    assert shown(at_work.slack) == ["bold x (https://e.com)"]


async def test_an_answer_outlives_its_thread(at_work: House) -> None:
    envelope = await heard(at_work, thread_ts="3.1")
    at_work.slack.fail("chat.postMessage", *[Fault("refuse", reason="thread_not_found")] * 2)
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "x"))
    assert "thread_ts" not in at_work.slack.messages["D1"][0]


async def test_buttons_come_with_an_approval_and_go_when_it_is_decided(at_work: House) -> None:
    envelope = await heard(at_work)
    buttons = [{"action": name, "value": "ab12", "label": name.title()} for name in ("approve", "deny")]
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "Allow it?", buttons=buttons))
    (asked,) = at_work.slack.messages["D1"]
    assert [item["action_id"] for item in asked["blocks"][1]["elements"]] == ["approve", "deny"]
    await at_work.slack.post(at_work.url, at_work.slack.pressed("approve", "ab12", asked))
    pressed = list(at_work.book.envelopes.values())[-1]
    decided = at_work.book.reply(envelope, "Allow it?\n\nApproved by Ann.", edits=asked["ts"])
    await at_work.book.deliver(at_work.channel, decided)
    await at_work.book.deliver(at_work.channel, at_work.book.reply(pressed, "Approved.", decided=True))
    (asked,) = at_work.slack.messages["D1"]
    assert [block["type"] for block in asked["blocks"]] == ["section"]
    assert asked["text"] == "Allow it?\n\nApproved by Ann."
    assert at_work.slack.ephemeral == []


async def test_buttons_of_the_same_action_have_ids_of_their_own(at_work: House) -> None:
    envelope = await heard(at_work)
    buttons = [{"action": "approve", "value": f"ab12 {name}", "label": name} for name in ("once", "hour", "always")]
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "Allow it?", buttons=buttons))
    (asked,) = at_work.slack.messages["D1"]
    elements = asked["blocks"][1]["elements"]
    assert len({item["action_id"] for item in elements}) == 3
    await at_work.slack.post(at_work.url, at_work.slack.pressed(elements[2]["action_id"], elements[2]["value"], asked))
    assert at_work.book.texts[-1] == "/approve ab12 always"


async def test_a_press_that_decides_nothing_is_explained_to_whoever_pressed(at_work: House) -> None:
    await at_work.slack.post(at_work.url, at_work.slack.pressed("approve", "ab12", {"ts": "4.1", "text": "Allow it?"}))
    (pressed,) = at_work.book.envelopes.values()
    await at_work.book.deliver(at_work.channel, at_work.book.reply(pressed, "Already denied."))
    assert (at_work.slack.messages, at_work.slack.ephemeral[0]["text"]) == ({}, "Already denied.")


async def test_a_question_that_was_deleted_is_not_edited_for_ever(at_work: House) -> None:
    envelope = await heard(at_work)
    for gone in ("9.9", ""):
        outcome = await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "Decided.", edits=gone))
        assert outcome == Sent(None)
    at_work.slack.fail("chat.update", Fault("lose_response"))
    assert isinstance(await at_work.channel.send(at_work.book.reply(envelope, "x", edits="9.9")), Retry)


async def test_a_slash_command_in_a_channel_is_answered_to_its_sender_only(at_work: House) -> None:
    await at_work.slack.post(at_work.url, at_work.slack.command("link"))
    (envelope,) = at_work.book.envelopes.values()
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "Your code is **X**."))
    assert at_work.slack.messages == {}
    assert at_work.slack.ephemeral[0]["text"] == "Your code is *X*."
    assert at_work.slack.ephemeral[0]["response_type"] == "ephemeral"


async def test_after_removal_nothing_is_sent_and_the_status_says_why(at_work: House) -> None:
    envelope = await heard(at_work)
    await at_work.slack.post(at_work.url, at_work.slack.event({"type": "app_uninstalled"}))
    outcome = await at_work.channel.send(at_work.book.reply(envelope, "x"))
    assert isinstance(outcome, Refused)
    assert "install it again" in outcome.reason
    assert at_work.channel.wrong() == [f"T1: {outcome.reason}"]
    assert at_work.slack.messages == {}


async def test_after_a_new_installation_it_is_on_again(at_work: House) -> None:
    await at_work.slack.post(
        at_work.url, at_work.slack.event({"type": "tokens_revoked", "tokens": {"bot": ["UAGENT"]}})
    )
    assert "revoked" in at_work.channel.wrong()[0]
    at_work.slack.fail("auth.test", Fault("refuse", reason="account_inactive"))
    # Slack delivers again from there: it is looked at, and the first look still says no.
    await heard(at_work, "too early")
    assert at_work.channel.wrong()
    at_work.channel._installations._found["T1"].looked_at = float("-inf")
    envelope = await heard(at_work, "hello again")
    assert at_work.channel.wrong() == []
    assert isinstance(await at_work.channel.send(at_work.book.reply(envelope, "hello")), Sent)


async def test_a_token_that_is_not_taken_any_more_is_told(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.slack.fail("chat.postMessage", Fault("refuse", reason="token_revoked"))
    assert isinstance(await at_work.channel.send(at_work.book.reply(envelope, "x")), Retry)
    assert "slack.bot_token" in at_work.channel.wrong()[0]
    assert isinstance(await at_work.channel.send(at_work.book.reply(envelope, "x")), Sent)
    assert at_work.channel.wrong() == []


async def test_a_wrong_token_is_told(slack: SlackServer) -> None:
    async with house(slack, Book(), bot_token="xoxb-wrong") as wrong:
        await slack.post(wrong.url, slack.message("x"))
        assert "slack.bot_token" in wrong.channel.wrong()[0]


async def test_a_wait_in_the_middle_of_a_long_reply_is_no_failed_attempt(at_work: House) -> None:
    envelope = await heard(at_work)
    reply = at_work.book.reply(envelope, "\n\n".join(f"Part{number} " + "word " * 700 for number in range(3)))
    second = Fault("rate_limit", seconds=0.5, when=lambda call: "Part1" in call["text"])
    at_work.slack.fail("chat.postMessage", second)
    assert isinstance(await at_work.channel.send(reply), Sent)
    assert [text.split()[0] for text in shown(at_work.slack)] == ["Part0", "Part1", "Part2"]


async def test_an_answer_without_words_sends_nothing(at_work: House) -> None:
    envelope = await heard(at_work)
    assert await at_work.channel.send(at_work.book.reply(envelope, " \n ")) == Sent(None)
    assert at_work.slack.messages == {}


async def test_a_message_that_went_out_unrecorded_is_found_not_repeated(at_work: House) -> None:
    envelope = await heard(at_work)
    reply = at_work.book.reply(envelope, "\n\n".join(f"Part{number} " + "word " * 700 for number in range(3)))
    record = at_work.book.record

    async def down(reply: object, sent: tuple[str, ...]) -> None:
        at_work.book.record = record  # type: ignore[method-assign]
        raise DatabaseUnavailable("down")

    at_work.book.record = down  # type: ignore[method-assign]
    await at_work.book.deliver(at_work.channel, reply)
    assert isinstance(at_work.book.outcomes[0], Uncertain)
    assert [text.split()[0] for text in shown(at_work.slack)] == ["Part0", "Part1", "Part2"]
