"""Replies to Telegram: in their place, within its limits, and honest about what cannot be known."""

from __future__ import annotations

from typing import Any

from gateway.channel import Refused, Retry, Sent, Uncertain
from nightporter.testing.telegram import ANN, TelegramServer
from nightporter.testing.web import Fault, until
from router.envelope import Envelope

from .conftest import House

GROUP = {"id": -100, "type": "supergroup", "title": "G"}
MENTION = [{"type": "mention", "offset": 0, "length": 11}]


async def heard(at_work: House, text: str = "hello", **more: Any) -> Envelope:
    before = len(at_work.book.envelopes)
    at_work.telegram.say(at_work.telegram.message(text, **more))
    await until(lambda: len(at_work.book.envelopes) > before, "the message")
    return list(at_work.book.envelopes.values())[-1]


def shown(telegram: TelegramServer) -> list[str]:
    return [message["text"] for message in telegram.messages]


async def test_a_reply_in_a_group_answers_the_message_in_its_topic(at_work: House) -> None:
    about = {"message_thread_id": 11, "is_topic_message": True, "message_id": 77}
    envelope = await heard(at_work, "@porter_bot hi", chat=GROUP, entities=MENTION, **about)
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "**done** & <b>"))
    (message,) = at_work.telegram.messages
    assert message["sent"]["text"] == "<b>done</b> &amp; &lt;b&gt;"
    assert int(message["sent"]["message_thread_id"]) == 11
    assert message["sent"]["reply_parameters"] == {"message_id": 77, "allow_sending_without_reply": True}
    assert at_work.book.settled() == Sent(str(message["message_id"]))


async def test_a_lost_answer_is_sent_once_more_and_said_to_be_repeated(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.telegram.fail("sendMessage", Fault("lose_response"))
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "answer"))
    assert shown(at_work.telegram) == ["answer", "answer"]
    assert isinstance(at_work.book.outcomes[0], Uncertain)
    assert at_work.book.settled().repeated


async def test_of_a_long_reply_at_most_one_message_is_repeated(at_work: House) -> None:
    envelope = await heard(at_work)
    reply = at_work.book.reply(envelope, "\n\n".join(f"Part{number} " + "word " * 700 for number in range(4)))
    third = Fault("lose_response", when=lambda call: "Part2" in call["text"])
    at_work.telegram.fail("sendMessage", third)
    await at_work.book.deliver(at_work.channel, reply)
    assert [text.split()[0] for text in shown(at_work.telegram)] == ["Part0", "Part1", "Part2", "Part2", "Part3"]


async def test_one_conversation_that_must_wait_stops_no_other(at_work: House) -> None:
    group = await heard(at_work, "@porter_bot hi", chat=GROUP, entities=MENTION)
    private = await heard(at_work)
    at_work.telegram.fail("sendMessage", Fault("rate_limit", seconds=30))
    assert await at_work.channel.send(at_work.book.reply(group, "x")) == Retry("Telegram asks to wait", 30.0)
    assert isinstance(await at_work.channel.send(at_work.book.reply(private, "y")), Sent)
    assert shown(at_work.telegram) == ["y"]


async def test_refused_markup_is_sent_as_plain_text(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.telegram.fail("sendMessage", Fault("refuse", reason="Bad Request: can't parse entities: no end tag"))
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "**bold** [x](https://e.com)"))
    assert shown(at_work.telegram) == ["bold x (https://e.com)"]
    assert "parse_mode" not in at_work.telegram.messages[0]["sent"]


async def test_a_person_who_blocked_the_bot_is_a_dead_letter(at_work: House) -> None:
    envelope = await heard(at_work)
    reason = "Forbidden: bot was blocked by the user"
    at_work.telegram.fail("sendMessage", Fault("refuse", status=403, reason=reason))
    outcome = await at_work.channel.send(at_work.book.reply(envelope, "x"))
    assert isinstance(outcome, Refused)
    assert "blocked" in outcome.reason


async def test_a_server_error_is_uncertain_and_no_connection_is_not(at_work: House) -> None:
    envelope = await heard(at_work)
    at_work.telegram.fail("sendMessage", Fault("error", status=502))
    assert isinstance(await at_work.channel.send(at_work.book.reply(envelope, "x")), Uncertain)


async def test_an_answer_outlives_its_topic(at_work: House) -> None:
    about = {"message_thread_id": 11, "is_topic_message": True}
    envelope = await heard(at_work, "@porter_bot hi", chat=GROUP, entities=MENTION, **about)
    at_work.telegram.fail("sendMessage", Fault("refuse", reason="Bad Request: message thread not found"))
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "x"))
    assert shown(at_work.telegram) == ["x"]


async def test_buttons_come_with_an_approval_and_go_when_it_is_decided(at_work: House) -> None:
    envelope = await heard(at_work)
    buttons = [{"action": name, "value": "ab12", "label": name.title()} for name in ("approve", "deny")]
    await at_work.book.deliver(at_work.channel, at_work.book.reply(envelope, "Allow it?", buttons=buttons))
    (asked,) = at_work.telegram.messages
    (row,) = asked["sent"]["reply_markup"]["inline_keyboard"]
    assert [button["callback_data"] for button in row] == ["a:ab12", "d:ab12"]
    at_work.telegram.say(at_work.telegram.pressed(row[0]["callback_data"], asked))
    await until(lambda: "/approve ab12" in at_work.book.texts, "the answer")
    pressed = list(at_work.book.envelopes.values())[-1]
    decided = at_work.book.reply(envelope, "Allow it? **Approved.**", edits=str(asked["message_id"]))
    await at_work.book.deliver(at_work.channel, decided)
    await at_work.book.deliver(at_work.channel, at_work.book.reply(pressed, "Approved.", decided=True))
    (asked,) = at_work.telegram.messages
    assert asked["text"] == "Allow it? Approved."
    assert "reply_markup" not in asked["sent"]
    (answer,) = at_work.telegram.said("answerCallbackQuery")
    assert (answer["text"], answer.get("show_alert", "false")) == ("Approved.", "false")


async def test_a_press_that_decides_nothing_is_explained_in_a_window(at_work: House) -> None:
    asked = {"message_id": 40, "date": 1, "chat": {**ANN, "type": "private"}, "text": "Allow it?"}
    at_work.telegram.say(at_work.telegram.pressed("a:ab12 always", asked))
    await until(lambda: "/approve ab12 always" in at_work.book.texts, "the press")
    (pressed,) = at_work.book.envelopes.values()
    await at_work.book.deliver(at_work.channel, at_work.book.reply(pressed, f"Already **denied** {'x' * 300}"))
    (answer,) = at_work.telegram.said("answerCallbackQuery")
    assert answer["show_alert"] == "true"
    assert answer["text"].startswith("Already denied xxx")
    assert len(answer["text"]) == 200
    assert at_work.telegram.messages == []


async def test_a_press_answered_too_late_is_explained_by_a_message(at_work: House) -> None:
    asked = {"message_id": 40, "date": 1, "chat": {**ANN, "type": "private"}, "text": "Allow it?"}
    at_work.telegram.say(at_work.telegram.pressed("d:ab12", asked))
    await until(lambda: "/deny ab12" in at_work.book.texts, "the press")
    (pressed,) = at_work.book.envelopes.values()
    for said, shown_then in (({"decided": True}, []), ({}, ["Already denied."])):
        at_work.telegram.fail("answerCallbackQuery", Fault("refuse", reason="Bad Request: query is too old"))
        await at_work.book.deliver(at_work.channel, at_work.book.reply(pressed, "Already denied.", **said))
        assert shown(at_work.telegram) == shown_then


async def test_a_question_that_was_deleted_is_not_edited_for_ever(at_work: House) -> None:
    envelope = await heard(at_work)
    assert await at_work.channel.send(at_work.book.reply(envelope, "Decided.", edits="99")) == Sent("99")
    assert await at_work.channel.send(at_work.book.reply(envelope, "Decided.", edits="")) == Sent(None)
