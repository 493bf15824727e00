"""Kinds of updates: what counts, what it says, where the answer goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.telegram.describe import bot_of, describe
from gateway.telegram.parse import load, parse
from gateway.telegram.parsed import Bot, Parsed

BOT = Bot("porter_bot", 7)
GROUP = {"id": -100, "type": "supergroup", "title": "G"}
PRIVATE = {"id": 5, "type": "private", "first_name": "Ann"}
ANN = {"id": 5, "is_bot": False, "first_name": "Ann"}
AGENT = {"id": 7, "is_bot": True, "first_name": "Porter", "username": "porter_bot"}


def message(body: dict[str, Any], kind: str = "message") -> dict[str, Any]:
    return {"update_id": 1, kind: {"message_id": 9, "date": 10, "from": ANN, "chat": PRIVATE, **body}}


def read(body: dict[str, Any], kind: str = "message") -> Parsed:
    return parse(message(body, kind), BOT)


def mention(text: str) -> dict[str, Any]:
    offset = len(text[: text.index("@porter_bot")].encode("utf-16-le")) // 2
    return {"text": text, "chat": GROUP, "entities": [{"type": "mention", "offset": offset, "length": 11}]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@porter_bot, hi", "hi"),
        ("@porter_bot: hi", "hi"),
        ("hi @porter_bot", "hi"),
        ("🎉 @porter_bot go", "🎉 go"),
        ("hi @porter_bot, go", "hi , go"),
        ("@porter_bot", ""),
    ],
)
def test_the_agents_own_mention_is_taken_out(text: str, words: str) -> None:
    assert read(mention(text)).text == words


def test_a_topic_made_by_the_agent_is_no_reply_to_it() -> None:
    root = {"message_id": 3, "from": AGENT, "chat": GROUP, "date": 1, "forum_topic_created": {"name": "x"}}
    body = {"text": "hello all", "chat": GROUP, "message_thread_id": 3, "is_topic_message": True}
    assert read({**body, "reply_to_message": root}).details["reason"] == "not_addressed"


def test_an_album_in_a_group_is_addressed_by_its_caption(tmp_path: Path) -> None:
    photo = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]
    captioned = mention("@porter_bot compare")
    items = [
        {"chat": GROUP, "photo": photo, "media_group_id": "m", "message_id": 20, "caption": captioned["text"],
         "caption_entities": captioned["entities"]},
        {"chat": GROUP, "photo": photo, "media_group_id": "m", "message_id": 21},
        {"chat": GROUP, "photo": photo, "media_group_id": "n", "message_id": 22},
    ]  # fmt: skip
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    for path, item in zip(paths, items, strict=True):
        path.write_text(json.dumps(message(item)))
    found = list(describe(paths, "porter_bot:7"))
    assert [item["action"] for item in found] == ["message", "message", "ignore"]
    assert [item.get("group_size") for item in found] == [2, 2, None]


def test_start_without_a_payload_and_in_a_group() -> None:
    start = [{"type": "bot_command", "offset": 0, "length": 6}]
    assert read({"text": "/start", "entities": start}).text == ""
    addressed = [{"type": "bot_command", "offset": 0, "length": 17}]
    parsed = read({"text": "/start@porter_bot abc", "entities": addressed, "chat": GROUP})
    assert (parsed.action, parsed.text) == ("start", "abc")


def test_links_within_a_command_keep_their_target() -> None:
    marks = [
        {"type": "bot_command", "offset": 0, "length": 5},
        {"type": "text_link", "offset": 6, "length": 4, "url": "https://example.com"},
    ]
    parsed = read({"text": "/read this", "entities": marks})
    assert (parsed.action, parsed.details["command"], parsed.text) == ("command", "read", "this (https://example.com)")


def test_a_moving_live_location_says_nothing() -> None:
    assert read({"location": {"latitude": 1, "longitude": 2}}, "edited_message").details["reason"] == "live_location"


def test_a_withdrawn_reaction_is_told() -> None:
    body = {"chat": PRIVATE, "user": ANN, "message_id": 4, "old_reaction": [{"type": "emoji", "emoji": "👍"}]}
    parsed = parse({"update_id": 1, "message_reaction": {**body, "new_reaction": []}}, BOT)
    assert (parsed.action, parsed.details["emoji"], parsed.details["removed"]) == ("reaction", "👍", True)


def test_the_bot_is_named_in_either_order() -> None:
    assert bot_of("@porter_bot:7") == bot_of("7:porter_bot") == BOT


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[" * 100_000, b'{"message":{"text":1,"entities":"x","photo":{},"from":[],"chat":7}}',
        b'{"callback_query":{"data":null}}', b'{"my_chat_member":{}}', b'{"message_reaction":{"new_reaction":[1]}}',
        b'{"message":{"chat":{"type":"private"},"text":"a","from":{"id":1},"entities":[{"offset":-1,"length":9}]}}',
    ],
)  # fmt: skip
def test_no_shape_is_an_error(body: bytes) -> None:
    assert parse(load(body), BOT).action


def test_what_bots_cannot_see_is_said_to_be_there() -> None:
    private = {"chat": {"id": 5, "type": "private"}, "from": {"id": 5, "is_bot": False, "first_name": "Ann"}}
    hidden = read({**private, "message_id": 1, "paid_media": {"star_count": 5, "paid_media": [{"type": "preview"}]}})
    assert (hidden.action, hidden.text) == ("message", "(paid media, of which bots see nothing)")
    about = {"reply_to_story": {"id": 3, "chat": {"id": 9, "type": "private"}}}
    assert read({**private, "message_id": 2, "text": "nice", **about}).context == "(a story, which bots cannot see)"
