"""The envelope: the same after the database, clean, and with a key that is its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from identity.users import Claim
from router.envelope import MAX_KEY_CHARACTERS, Attachment, Envelope, clean, dedupe_key

ANY = st.text(st.characters(codec=None), max_size=30)


def envelope(**values: object) -> Envelope:
    given: dict[str, object] = {
        "channel": "mail", "account": "a", "external_id": "1", "sender": Claim("mail", "a", "ann"),
        "conversation": "c", "thread": "t", "text": "hello",
    }  # fmt: skip
    return Envelope(**(given | values))  # type: ignore[arg-type]


def test_an_envelope_comes_back_as_it_was() -> None:
    whole = envelope(
        context="quoted", attachments=(Attachment("a.txt", "text/plain", 3, "abc"),), sent_at=5,
        reply={"message_id": "<x@y>", "list": [1]},
    )  # fmt: skip
    assert Envelope.from_json(whole.to_json()) == whole


@given(ANY, ANY, ANY, ANY)
def test_whatever_was_said_can_be_stored_and_comes_back(text: str, thread: str, name: str, key: str) -> None:
    made = envelope(text=text, thread=thread, external_id=key, sender=Claim("mail", "a", name, name))
    body = made.to_json()
    for stored in (body, made.text, made.thread, made.dedupe_key, made.sender.external_id, made.sender.display):
        stored.encode()
        assert "\x00" not in stored
    back = Envelope.from_json(body)
    assert (back.text, back.thread, back.sender) == (made.text, made.thread, made.sender)


@given(st.text())
def test_what_can_be_stored_is_left_alone(text: str) -> None:
    assert clean(text) == text.replace("\x00", "\ufffd")


@given(st.text(max_size=3000), st.text(max_size=3000))
def test_keys_fit_an_index_and_differ_where_ids_differ(one: str, other: str) -> None:
    first, second = dedupe_key("mail", "a", one), dedupe_key("mail", "a", other)
    assert len(first) <= MAX_KEY_CHARACTERS
    assert (first == second) == (clean(one) == clean(other))


def test_the_same_id_at_another_account_is_another_message() -> None:
    assert len({envelope(account=a, channel=c).dedupe_key for a in "ab" for c in ("mail", "slack")}) == 4
