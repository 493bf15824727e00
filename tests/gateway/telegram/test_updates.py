"""Updates by polling and webhook: recorded once, confirmed only then, joined where they are one message."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from gateway.telegram import polling as polling_module
from gateway.telegram.channel import TelegramChannel
from gateway.telegram.config import TelegramConfig
from nightporter.testing.book import Book
from nightporter.testing.telegram import ANN, TOKEN, TelegramServer
from nightporter.testing.web import Fault, until
from router.commands import COMMANDS

from .conftest import SECRET, House, polling

GROUP = {"id": -100, "type": "supergroup", "title": "G"}


def photo(number: int) -> list[dict[str, Any]]:
    return [{"file_id": f"f{number}", "file_unique_id": f"u{number}", "width": 9, "height": 9, "file_size": 10}]


async def test_a_message_is_recorded_then_confirmed(at_work: House) -> None:
    update = at_work.telegram.message("hello")
    at_work.telegram.say(update)
    await until(lambda: at_work.telegram.confirmed == update["update_id"], "the update is confirmed")
    (envelope,) = at_work.book.envelopes.values()
    assert (envelope.text, envelope.conversation, envelope.thread) == ("hello", "5", "")
    assert (envelope.sender.account, envelope.sender.external_id, envelope.sender.display) == ("7", "5", "Ann")
    assert envelope.dedupe_key == f"telegram:7:5:{update['message']['message_id']}"


@pytest.mark.slow
async def test_without_a_database_nothing_is_confirmed(telegram: TelegramServer) -> None:
    book = Book(down=2)
    async with polling(telegram, book):
        update = telegram.message("hello")
        telegram.say(update)
        await until(lambda: book.down < 2, "the first try")
        assert telegram.confirmed < update["update_id"]
        await until(lambda: telegram.confirmed == update["update_id"], "the update is confirmed")
    assert book.texts == ["hello"]


async def test_after_a_restart_what_was_recorded_is_not_said_twice(telegram: TelegramServer) -> None:
    book = Book()
    telegram.say(telegram.message("hello"))
    async with polling(telegram, book):
        await until(lambda: book.envelopes, "the message")
    telegram.confirmed = 0
    async with polling(telegram, book):
        await until(lambda: book.accepted == 2, "the redelivery")
    assert book.texts == ["hello"]


async def test_one_update_that_cannot_be_recorded_holds_nothing_up(telegram: TelegramServer) -> None:
    book = Book()

    async def accept(envelope: Any) -> Any:
        if envelope.text == "poison":
            raise ValueError("no")
        return await Book.accept(book, envelope)

    book.accept = accept  # type: ignore[method-assign]
    async with polling(telegram, book):
        telegram.say(telegram.message("poison"), telegram.update(of_the_future={"a": 1}), telegram.message("hello"))
        await until(lambda: book.texts == ["hello"], "the next message")


async def test_each_item_of_an_album_is_recorded_and_shows_that_more_is_coming(at_work: House) -> None:
    telegram = at_work.telegram
    telegram.say(telegram.message(photo=photo(1), media_group_id="m", caption="compare"))
    telegram.say(telegram.message(photo=photo(2), media_group_id="m"), telegram.message("next"))
    await until(lambda: len(at_work.book.envelopes) == 3, "three messages")
    first, second, after = at_work.book.envelopes.values()
    assert [(item.text, item.more) for item in (first, after)] == [("compare", True), ("next", False)]
    assert [item.blob for item in (*first.attachments, *second.attachments)] == ["telegram:f1", "telegram:f2"]
    assert second.more
    assert first.order < second.order < after.order


@pytest.mark.parametrize("captioned_at", [0, 1])
async def test_an_album_in_a_group_is_addressed_by_its_caption(at_work: House, captioned_at: int) -> None:
    telegram = at_work.telegram
    mention = [{"type": "mention", "offset": 0, "length": 11}]
    captioned = {"caption": "@porter_bot look", "caption_entities": mention}
    for number in range(2):
        words: dict[str, Any] = captioned if number == captioned_at else {}
        telegram.say(telegram.message(photo=photo(number), media_group_id="m", chat=GROUP, **words))
    telegram.say(
        telegram.message(photo=photo(3), media_group_id="n", chat=GROUP),
        telegram.message("@porter_bot after", entities=mention, chat=GROUP),
    )
    await until(lambda: "after" in at_work.book.texts, "all of them")
    heard = [envelope for envelope in at_work.book.envelopes.values() if envelope.attachments]
    assert [item.attachments[0].blob for item in heard] == ["telegram:f0", "telegram:f1"]
    assert heard[captioned_at].text == "look"
    assert all(item.more for item in heard)


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ({"text": "a" * 4096}, True),
        ({"text": "🙂" * 2048}, True),
        ({"text": "a" * 3900}, False),
        ({"document": {"file_id": "d", "file_unique_id": "d", "file_name": "a.pdf"}}, True),
        ({"document": {"file_id": "d", "file_unique_id": "d", "file_name": "a.pdf"}, "caption": "read it"}, False),
        ({"voice": {"file_id": "v", "file_unique_id": "v", "duration": 3}}, False),
        ({"text": "/help"}, False),
    ],
)
async def test_only_a_sign_that_more_is_coming_lets_a_message_wait(
    at_work: House, said: dict[str, Any], more: bool
) -> None:
    at_work.telegram.say(at_work.telegram.message(**said))
    await until(lambda: at_work.book.envelopes, "the message")
    (envelope,) = at_work.book.envelopes.values()
    assert envelope.more is more


async def test_two_pollers_are_explained(at_work: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling_module, "CONFLICT_SECONDS", 0.1)
    conflict = Fault("refuse", status=409, reason="Conflict: terminated by other getUpdates request")
    at_work.telegram.fail("getUpdates", *[conflict] * 3)
    at_work.telegram.say(at_work.telegram.message("wake"))
    await until(lambda: "another program polls" in str(at_work.channel.wrong()), "an explanation")
    at_work.telegram.say(at_work.telegram.message("still here"))
    await until(lambda: "still here" in at_work.book.texts, "polling goes on")
    await until(lambda: at_work.channel.wrong() == [], "all is well again")


@pytest.mark.slow
async def test_polling_survives_errors_and_lost_connections(at_work: House) -> None:
    telegram = at_work.telegram
    telegram.fail("getUpdates", Fault("error", status=502), Fault("lose_request"), Fault("rate_limit", seconds=1))
    telegram.say(telegram.message("a"))
    await until(lambda: at_work.book.envelopes, "polling runs")
    telegram.say(telegram.message("hello"))
    await until(lambda: at_work.book.texts == ["a", "hello"], "the message")


async def test_a_wrong_token_is_told(telegram: TelegramServer) -> None:
    async with polling(telegram, Book(), token="9:wrong") as wrong:
        await until(lambda: "telegram.token" in str(wrong.channel.wrong()), "the reason")


async def test_buttons_edits_and_reactions(at_work: House) -> None:
    telegram = at_work.telegram
    asked = {"message_id": 40, "date": 1, "chat": {**ANN, "type": "private"}, "text": "Allow it?"}
    edited = telegram.message("new words", message_id=30, edit_date=2)
    reaction = {"chat": {**ANN, "type": "private"}, "user": ANN, "message_id": 41, "date": 1, "old_reaction": []}
    telegram.say(
        telegram.pressed("a:ab12", asked),
        telegram.update(edited_message=edited["message"]),
        telegram.update(message_reaction={**reaction, "new_reaction": [{"type": "emoji", "emoji": "👍"}]}),
    )
    await until(lambda: len(at_work.book.changes) == 2, "two changes")
    assert at_work.book.texts == ["/approve ab12"]
    edit, liked = at_work.book.changes
    assert (edit.kind, edit.message, edit.text) == ("edit", "telegram:7:5:30", "new words")
    assert (liked.kind, liked.emoji, liked.target) == ("reaction", "👍", "41")
    assert telegram.said("answerCallbackQuery") == []


async def test_a_press_that_comes_again_ends_its_progress_bar(at_work: House) -> None:
    telegram = at_work.telegram
    press = telegram.pressed("a:ab12", {"message_id": 40, "date": 1, "chat": {**ANN, "type": "private"}, "text": "x"})
    again = {**press, "update_id": press["update_id"] + 1}
    telegram.say(press, again)
    (answer,) = await until(lambda: telegram.said("answerCallbackQuery"), "the second press is answered")
    assert "text" not in answer


async def test_forwarded_words_are_not_the_senders_own(at_work: House) -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Ben", "date": 1}
    at_work.telegram.say(at_work.telegram.message("pay now", forward_origin=origin))
    await until(lambda: at_work.book.envelopes, "the message")
    (envelope,) = at_work.book.envelopes.values()
    assert (envelope.text, envelope.context) == ("(forwarded from Ben)", "pay now")


async def test_commands_are_listed_and_typing_is_shown(at_work: House) -> None:
    telegram = at_work.telegram
    telegram.say(telegram.message("hello"))
    await until(lambda: telegram.said("sendChatAction"), "typing")
    await until(lambda: "default" in telegram.commands, "commands")
    assert set(telegram.commands["all_private_chats"]) == set(COMMANDS)
    in_groups = {name for name, command in COMMANDS.items() if command.for_rooms}
    assert set(telegram.commands["all_group_chats"]) == in_groups


@pytest.mark.slow
async def test_another_programs_webhook_is_explained(at_work: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling_module, "CONFLICT_SECONDS", 0.05)
    await until(lambda: at_work.telegram.said("getUpdates"), "it polls")
    at_work.telegram.webhook = {"url": "https://elsewhere.example/hook"}
    at_work.telegram.say(at_work.telegram.message("x"))
    await until(lambda: "has set a webhook" in " ".join(at_work.channel.wrong()), "the conflict is told")
    at_work.telegram.webhook = {}
    await until(lambda: at_work.book.envelopes and not at_work.channel.wrong(), "it goes on")


async def test_business_messages_are_answered_only_where_that_is_switched_on(telegram: TelegramServer) -> None:
    said = telegram.message("is it open?")["message"]
    for business in (False, True):
        book = Book()
        config = TelegramConfig(TOKEN, telegram.api_url, business=business)
        channel = TelegramChannel(config, book.accept, book, book.changed)
        await channel.start()
        update = telegram.update(business_message={**said, "business_connection_id": "bc1"})
        telegram.say(update)
        await until(lambda sent=update: telegram.confirmed >= sent["update_id"], "the update")  # type: ignore[misc]
        assert len(book.envelopes) == int(business)
        assert ("business_message" in str(telegram.said("getUpdates")[-1]["allowed_updates"])) is business
        if business:
            (envelope,) = book.envelopes.values()
            await until(lambda: telegram.said("sendChatAction"), "typing")
            await book.deliver(channel, book.reply(envelope, "yes"))
            assert telegram.said("sendMessage")[-1]["business_connection_id"] == "bc1"
            assert telegram.said("sendChatAction")[-1]["business_connection_id"] == "bc1"
        await channel.close()


async def test_a_webhook_that_fails_is_told_and_one_that_was_taken_away_is_set_again(
    with_webhook: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = {"last_error_date": int(time.time()), "last_error_message": "404 Not Found", "pending_update_count": 2}
    with_webhook.telegram.webhook_trouble = trouble
    await until(lambda: "404 Not Found" in " ".join(with_webhook.channel.wrong()), "the failure is told")
    with_webhook.telegram.webhook_trouble = {}
    await until(lambda: not with_webhook.channel.wrong(), "all is well again")
    url = with_webhook.telegram.webhook["url"]
    with_webhook.telegram.webhook = {}
    await until(lambda: with_webhook.telegram.webhook.get("url") == url, "it is set again")
    assert "my_chat_member" in with_webhook.telegram.webhook["allowed_updates"]


async def test_a_webhook_is_taken_away_where_polling_is_set_up(telegram: TelegramServer) -> None:
    telegram.webhook = {"url": "https://porter.example.org/telegram/webhook"}
    async with polling(telegram, Book()) as found:
        telegram.say(telegram.message("x"))
        await until(lambda: found.book.envelopes, "it is polled for")


async def test_the_webhook_answers_only_what_is_recorded(with_webhook: House) -> None:
    telegram, book, url = with_webhook.telegram, with_webhook.book, with_webhook.url
    update = telegram.message("hello")
    book.down = 1
    assert await telegram.post(url, update, SECRET) == 503
    assert await telegram.post(url, update, SECRET) == 200
    assert await telegram.post(url, update, SECRET) == 200
    assert book.texts == ["hello"]
    assert telegram.webhook["secret_token"] == SECRET


async def test_the_webhook_wants_its_secret(with_webhook: House) -> None:
    telegram = with_webhook.telegram
    assert await telegram.post(with_webhook.url, telegram.message("hello"), "guess") == 401
    assert with_webhook.book.texts == []


async def test_an_album_at_the_webhook_is_confirmed_at_once_and_keeps_its_order(with_webhook: House) -> None:
    telegram, url = with_webhook.telegram, with_webhook.url
    updates = [telegram.message(photo=photo(number), media_group_id="m") for number in range(3)]
    statuses = await asyncio.gather(*[telegram.post(url, update, SECRET) for update in reversed(updates)])
    assert statuses == [200, 200, 200]
    album = sorted(with_webhook.book.envelopes.values(), key=lambda envelope: envelope.order)
    assert [item.attachments[0].blob for item in album] == ["telegram:f0", "telegram:f1", "telegram:f2"]
