"""Files that people send on Telegram: by their ids, named by what they are where they have no name."""

from __future__ import annotations

import pytest

from gateway.files import Fetched, NoFile, NotYet
from nightporter.testing.telegram import TelegramServer
from nightporter.testing.web import Fault, until
from tests.gateway.telegram.conftest import House

MOST = 1 << 20


async def test_a_file_is_fetched_by_its_id(at_work: House, telegram: TelegramServer) -> None:
    telegram.files["f1"] = b"content"
    assert await at_work.channel.fetch("7", "telegram:f1", MOST) == Fetched(b"content")


async def test_what_may_pass_is_tried_again_and_what_will_not_is_not(at_work: House, telegram: TelegramServer) -> None:
    telegram.files["f1"] = b"content"
    telegram.fail(
        "getFile",
        Fault("rate_limit", seconds=7),
        Fault("error"),
        Fault("lose_response"),
        Fault("refuse", reason="Bad Request: wrong file_id or the file is temporarily unavailable"),
        Fault("refuse", reason="Bad Request: file is too big"),
    )
    for seconds in (7, None, None, None):
        with pytest.raises(NotYet) as asked:
            await at_work.channel.fetch("7", "telegram:f1", MOST)
        assert asked.value.seconds == seconds
    with pytest.raises(NoFile, match="20 MB"):
        await at_work.channel.fetch("7", "telegram:f1", MOST)
    with pytest.raises(NoFile, match="Invalid file_id"):
        await at_work.channel.fetch("7", "telegram:f2", MOST)
    with pytest.raises(NoFile, match="larger than"):
        await at_work.channel.fetch("7", "telegram:f1", 3)


async def test_what_has_no_name_is_called_by_what_it_is(at_work: House, telegram: TelegramServer) -> None:
    photo = [{"file_id": "p", "file_unique_id": "up", "width": 9, "height": 9, "file_size": 10}]
    voice = {"file_id": "v", "file_unique_id": "uv", "duration": 1, "mime_type": "audio/ogg"}
    document = {"file_id": "d", "file_unique_id": "ud", "file_name": "a.pdf", "file_size": 30 << 20}
    telegram.say(telegram.message(photo=photo), telegram.message(voice=voice), telegram.message(document=document))
    await until(lambda: len(at_work.book.envelopes) == 3, "three messages")
    found = [envelope.attachments[0] for envelope in at_work.book.envelopes.values()]
    assert [file.name for file in found] == ["photo.jpg", "voice.oga", "a.pdf"]
    assert [bool(file.problem) for file in found] == [False, False, True]
    assert "20 MB" in found[2].problem
    assert at_work.book.texts == ["", "", ""]
