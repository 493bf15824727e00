"""Kinds of deliveries: what counts, what it says, where the answer goes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.slack.parse import decide, load, parse
from gateway.slack.parsed import Bot, Parsed
from gateway.slack.strands import Strands

BOT = Bot("UAGENT", "BAGENT")


def event(body: dict[str, Any], **envelope: Any) -> dict[str, Any]:
    said = {"type": "message", "user": "UANN", "channel": "C1", "ts": "10.1", "text": "", **body}
    installed = [{"team_id": "T1", "user_id": "UAGENT", "is_bot": True}]
    return {"type": "event_callback", "team_id": "T1", "authorizations": installed, "event": said, **envelope}


def read(body: dict[str, Any], **envelope: Any) -> Parsed:
    return parse(event(body, **envelope), BOT)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<@UAGENT>: deploy", "deploy"),
        ("<@UAGENT|agent>, deploy", "deploy"),
        ("please deploy <@UAGENT>", "please deploy"),
        ("ask <@UAGENT> and <@UBOB>", "ask and @UBOB"),
        ("<https://example.com?a=1&amp;b=2|a &amp; b>", "a & b (https://example.com?a=1&b=2)"),
        ("<https://example.com/x>", "https://example.com/x"),
        ("<!subteam^S1|ops> <!everyone> <#C2|>", "@ops @everyone #C2"),
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("<!date^1^{date}^https://example.com|May>", "May"),
    ],
)
def test_tokens_are_read_as_words(text: str, words: str) -> None:
    assert read({"text": text, "channel": "D1"}).text == words


def test_a_table_and_a_section_are_words_when_text_is_empty() -> None:
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Plan"}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "for <@UBOB> &amp; co"}},
        {"type": "table", "rows": [[{"type": "raw_text", "text": "a"}, {"type": "raw_text", "text": "b"}]]},
    ]
    assert read({"blocks": blocks, "channel": "D1"}).text == "Plan\nfor @UBOB & co\na | b"


def test_a_mention_that_stands_only_in_blocks_counts() -> None:
    inside = [{"type": "user", "user_id": "UAGENT"}, {"type": "text", "text": " hi"}]
    rich = [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": inside}]}]
    parsed = read({"blocks": rich})
    assert (parsed.action, parsed.text, parsed.thread) == ("message", "hi", "10.1")


def test_a_reply_in_a_thread_counts_where_the_agent_takes_part() -> None:
    strands = Strands()
    reply = {"text": "and now?", "ts": "10.9", "thread_ts": "10.1"}
    assert strands.follow(read(reply)).action == "ignore"
    own = {"user": "UAGENT", "bot_id": "BAGENT", "text": "done", "ts": "10.5", "thread_ts": "10.1"}
    assert strands.follow(read(own)).details["reason"] == "self"
    assert strands.follow(read(reply)).action == "message"


def test_a_reply_to_the_agents_own_message_needs_no_memory() -> None:
    assert not read({"text": "why?", "ts": "10.9", "thread_ts": "10.1", "parent_user_id": "UAGENT"}).needs_thread


def test_nobody_is_answered_in_a_thread_of_others() -> None:
    assert decide(read({"text": "x", "ts": "10.9", "thread_ts": "10.1"}), False).action == "ignore"


def test_a_deleted_thread_parent_arrives_as_a_tombstone() -> None:
    changed = {"type": "message", "subtype": "tombstone", "user": "USLACKBOT", "ts": "9.1", "text": "deleted"}
    before = {"type": "message", "user": "UANN", "ts": "9.1", "text": "<@UAGENT> x"}
    body = {"subtype": "message_changed", "message": changed, "previous_message": before, "channel": "D1"}
    parsed = read({**body, "user": None, "hidden": True})
    assert (parsed.action, parsed.details.get("deletes"), parsed.user) == ("delete", "9.1", "UANN")


def test_an_edit_of_chatter_is_none_of_the_agents_business() -> None:
    message = {"user": "UANN", "ts": "9.1", "text": "b", "edited": {"user": "UANN", "ts": "9.2"}}
    body = {"subtype": "message_changed", "message": message, "previous_message": {**message, "text": "a"}}
    assert read(body).details["reason"] == "not_addressed"


def test_only_users_tokens_revoked_keeps_the_channel_open() -> None:
    assert read({"type": "tokens_revoked", "tokens": {"oauth": ["UANN"], "bot": []}}).action == "ignore"


def test_another_workspace_of_the_same_grid_is_not_external() -> None:
    parsed = read({"text": "x", "channel": "D1", "user_team": "T2"}, enterprise_id="E1")
    assert "external" not in parsed.details
    assert read({"text": "x", "channel": "D1", "user_team": "T2"}).details["external"]


def test_an_interaction_over_http_comes_in_a_form() -> None:
    body = b"payload=%7B%22type%22%3A%22block_actions%22%2C%22actions%22%3A%5B%7B%22action_id%22%3A%22deny%3A1%22%2C"
    body += b"%22value%22%3A%22a1%22%2C%22action_ts%22%3A%225.1%22%7D%5D%2C%22team%22%3A%7B%22id%22%3A%22T1%22%7D%2C"
    body += b"%22channel%22%3A%7B%22id%22%3A%22C1%22%7D%2C%22container%22%3A%7B%22message_ts%22%3A%224.1%22%7D%7D"
    parsed = parse(load(body), BOT)
    assert (parsed.action, parsed.details["value"], parsed.thread) == ("deny", "a1", "4.1")
    assert parsed.dedupe_key == "T1:C1:5.1"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b"payload=%7B", b'{"type":"event_callback","event":[]}',
        b'{"type":"event_callback","event":{"type":"message","text":7,"blocks":{"a":1},"files":[1,{}]}}',
        b'{"type":"block_actions","actions":{}}', b'{"type":"view_submission","view":[]}',
        b'{"envelope_id":"e","type":"events_api","payload":{}}',
        b'{"type":"event_callback","event":{"type":"reaction_added","item":"x"}}',
    ],
)  # fmt: skip
def test_no_shape_is_an_error(body: bytes) -> None:
    assert parse(load(body), BOT).action in {"ignore", "message", "submit"}


def test_deeply_nested_blocks_end() -> None:
    nested: dict[str, Any] = {"type": "rich_text_section", "elements": []}
    for _ in range(500):
        nested = {"type": "rich_text_list", "elements": [nested]}
    assert read({"blocks": [{"type": "rich_text", "elements": [nested]}], "channel": "D1"}).action == "message"


def test_without_a_name_the_agent_is_who_the_delivery_says() -> None:
    assert parse(event({"text": "<@UAGENT> hi"}), Bot("")).text == "hi"


def test_what_nobody_says_is_nobodys() -> None:
    assert read({"user": None, "channel": "D1", "text": "x"}).action == "ignore"


def test_an_edit_that_names_the_agent_only_now_is_an_edit() -> None:
    before = {"user": "UANN", "text": "look", "ts": "1.0"}
    after = {**before, "text": "<@UAGENT> look", "edited": {"user": "UANN", "ts": "1.2"}}
    parsed = read({"subtype": "message_changed", "message": after, "previous_message": before})
    assert (parsed.action, parsed.text) == ("edit", "look")


def test_where_people_look_is_no_message() -> None:
    thread = {"user_id": "UANN", "channel_id": "D1", "thread_ts": "7.1", "context": {"channel_id": "C6"}}
    parsed = read({"type": "assistant_thread_context_changed", "assistant_thread": thread})
    assert (parsed.action, parsed.details["reason"], parsed.details["viewing"]) == ("ignore", "lifecycle", "C6")
