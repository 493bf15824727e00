"""Files in every channel's own protocol: what is sent in is there for the agent, and what it sends out arrives."""

from __future__ import annotations

import asyncio
import contextlib
import email.policy
import smtplib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from nightporter.testing import House
from nightporter.testing.slack import SlackServer
from nightporter.testing.telegram import TOKEN, TelegramServer
from nightporter.testing.web import Fault, until
from tests.scenarios import post
from workspace_store.blobs import DirectoryBlobs

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
SECRET = "a-signing-secret"
CONTENT = bytes(range(256)) * 40


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer() as server:
        yield server


async def on_telegram(make_house: MakeHouse, server: TelegramServer, **settings: str) -> House:
    given = {"telegram__token": TOKEN, "telegram__api_url": server.api_url, "access__policy": "open", **settings}
    return await asyncio.to_thread(make_house, **given)


async def on_slack(make_house: MakeHouse, server: SlackServer, **settings: str) -> House:
    given = {"slack__bot_token": "xoxb-local", "slack__signing_secret": SECRET, "slack__api_url": server.api_url}
    return await asyncio.to_thread(make_house, access__policy="open", **given, **settings)


def inbox(house: House) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in house.home.glob("volumes/*/live/workspace/inbox/*")}


def document(name: str, **more: Any) -> dict[str, Any]:
    return {"file_id": "d1", "file_unique_id": "u1", "file_name": name, "mime_type": "text/plain", **more}


async def test_a_file_on_telegram_is_there_for_the_command_that_came_with_it(
    make_house: MakeHouse, telegram: TelegramServer
) -> None:
    house = await on_telegram(make_house, telegram)
    telegram.files["d1"] = b"what the file says\n"
    telegram.fail("getFile", Fault("error"), Fault("rate_limit", seconds=1))
    telegram.say(telegram.message(caption="$ cat inbox/notes.txt", document=document("notes.txt", file_size=19)))
    await until(lambda: telegram.messages, "an answer")
    assert "what the file says" in telegram.messages[-1]["text"]
    telegram.say(telegram.message(document=document("film.mkv", file_size=50 << 20)))
    await until(lambda: len(telegram.messages) == 2, "an answer to what is too large")
    assert "film.mkv did not come through" in telegram.messages[-1]["text"]
    assert "20 MB" in telegram.messages[-1]["text"]
    assert list(inbox(house)) == ["notes.txt"]


async def test_files_on_slack_come_once_whatever_is_killed(make_house: MakeHouse, slack: SlackServer) -> None:
    house = await on_slack(make_house, slack)
    slack.add_file("F1", "data.bin", "application/octet-stream", CONTENT)
    slack.add_file("F2", "gone.txt", "text/plain", b"x")
    url = f"http://{house.addresses['http']}/slack/events"
    shared = [{"id": "F1", "name": "data.bin", "mimetype": "application/octet-stream", "size": len(CONTENT)}]
    event = slack.message("$ sleep 1; sha256sum inbox/*", subtype="file_share", files=shared)
    slack.fail("files.info", *[Fault("error")] * 3)
    assert (await slack.post(url, event, secret=SECRET))[0] == 200
    for role in ("gateway", "runner"):
        await asyncio.to_thread(house.kill, role)
    await until(lambda: slack.said("chat.postMessage"), "an answer", 60)
    assert inbox(house) == {"data.bin": CONTENT}
    assert "inbox/data.bin" in slack.said("chat.postMessage")[0]["text"]
    url = f"http://{house.addresses['http']}/slack/events"
    slack.sign_in = True
    refused = slack.message(
        "", subtype="file_share", files=[{"id": "F2", "name": "gone.txt", "mimetype": "text/plain"}]
    )
    assert (await slack.post(url, refused, secret=SECRET))[0] == 200
    await until(lambda: len(slack.said("chat.postMessage")) == 2, "an answer about what is no file")
    assert "sign-in page" in slack.said("chat.postMessage")[1]["text"]
    assert list(inbox(house)) == ["data.bin"]


def test_a_file_goes_in_and_comes_out_over_http_as_it_was(make_house: MakeHouse, tmp_path: Path) -> None:
    house = make_house()
    given, out = tmp_path / "data file.bin", tmp_path / "out"
    given.write_bytes(CONTENT)
    said = house.run("chat", "-m", "$ cp 'inbox/data file.bin' copy.bin", "--file", str(given))
    assert said.returncode == 0, said.stderr
    said = house.run("chat", "-m", "!send copy.bin", "--save", str(out))
    assert f"{out}/copy.bin" in said.stdout
    assert (out / "copy.bin").read_bytes() == CONTENT
    assert "/v1/messages/" in house.run("chat", "-m", "!send copy.bin").stdout
    said = house.run("chat", "--file", str(given), "-m", "")
    assert "`/workspace/inbox/data file.bin`" in said.stdout
    assert house.run("chat", "-m", "x", "--file", str(tmp_path / "missing")).returncode == 1
    assert "outside" in house.say("!send ../../etc/passwd")


@pytest.mark.parametrize("victim", ["runner", "gateway", "sandbox-manager"])
def test_a_kill_in_the_middle_loses_and_doubles_no_file(make_house: MakeHouse, victim: str) -> None:
    house = make_house()
    with house.client() as client:
        form = [("file", ("data.bin", CONTENT)), ("text", (None, "$ sleep 1; cp inbox/data.bin copy.bin"))]
        assert client.post("/v1/messages", files=[*form, ("message_id", (None, "m1"))]).status_code == 202
    house.kill(victim)
    house.answer("m1")
    house.post("$ cp -n inbox/data.bin copy.bin")
    message = house.post("!send copy.bin")
    house.kill(victim)
    (reply,) = house.answer(message)["replies"]
    assert inbox(house) == {"data.bin": CONTENT}
    with house.client() as client:
        assert client.get(reply["files"][0]["url"]).content == CONTENT
    assert house.run("journal", "verify").returncode == 0


def uploaded(server: SlackServer) -> list[tuple[str, bytes, str]]:
    return server.shared("C1")


async def test_a_file_goes_out_on_slack_in_its_thread_and_once(make_house: MakeHouse, slack: SlackServer) -> None:
    house = await on_slack(make_house, slack)
    slack.add_file("F1", "data.bin", "application/octet-stream", CONTENT)
    url = f"http://{house.addresses['http']}/slack/events"
    shared = [{"id": "F1", "name": "data.bin", "mimetype": "application/octet-stream", "size": len(CONTENT)}]
    first = slack.message("<@UAGENT> $ true", channel="C1", files=shared, subtype="file_share")
    await slack.post(url, first, secret=SECRET)
    await until(lambda: slack.messages.get("C1"), "the command's answer")
    thread = str(first["event"]["ts"])
    slack.fail("files.getUploadURLExternal", Fault("error"))
    slack.fail("files.completeUploadExternal", Fault("lose_response"))
    ask = slack.message("<@UAGENT> !send inbox/data.bin", channel="C1", thread_ts=thread)
    await slack.post(url, ask, secret=SECRET)
    await until(lambda: uploaded(slack), "the file", 60)
    slack.fail("files.getUploadURLExternal", Fault("refuse", reason="missing_scope"))
    await slack.post(
        url, slack.message("<@UAGENT> !send inbox/data.bin", channel="C1", thread_ts=thread), secret=SECRET
    )
    said = lambda: [str(item["text"]) for item in slack.messages["C1"]]  # noqa: E731
    await until(lambda: any("could not send" in text for text in said()), "words in its place", 60)
    assert uploaded(slack) == [("data.bin", CONTENT, thread)], "shared once, though the answer to that was lost"
    assert any("lacks a permission" in text for text in said())


async def test_a_file_goes_out_on_telegram_as_it_was(make_house: MakeHouse, telegram: TelegramServer) -> None:
    await on_telegram(make_house, telegram)
    telegram.files["d1"] = CONTENT
    telegram.say(telegram.message(caption="!send inbox/data.bin", document=document("data.bin")))
    await until(telegram.sent_files, "the file", 60)
    assert telegram.sent_files() == [("data.bin", CONTENT)]
    telegram.fail("sendDocument", Fault("refuse", reason="Bad Request: file must be non-empty"))
    telegram.say(telegram.message("!send inbox/data.bin"))
    await until(lambda: any("could not send" in item["text"] for item in telegram.messages), "words in its place", 60)
    telegram.fail("sendPhoto", Fault("refuse", reason="Bad Request: PHOTO_INVALID_DIMENSIONS"))
    telegram.say(telegram.message("$ cp inbox/data.bin a.png"), telegram.message("!show a.png"))
    await until(lambda: len(telegram.sent_files()) == 2, "a picture that is none, as a file", 60)
    telegram.say(telegram.message("!show a.png"))
    await until(lambda: telegram.sent_files("photo"), "a picture", 60)
    assert telegram.sent_files("photo") == [("a.png", CONTENT)]


def test_files_travel_by_mail_both_ways(house: House) -> None:
    mail = post.write("!send inbox/data.bin")
    mail.add_attachment(CONTENT, maintype="application", subtype="octet-stream", filename="../data.bin")
    mail.add_attachment(b"x", maintype="text", subtype="plain", filename="r\u202etxt.exe")
    raw = mail.as_bytes(policy=email.policy.SMTP)
    post.send(house, raw)
    reply = post.reply_to(house, mail)
    (file,) = reply.iter_attachments()
    assert (file.get_filename(), file.get_content()) == ("data.bin", CONTENT)
    assert inbox(house) == {"data.bin": CONTENT, "rtxt.exe": b"x"}
    (folder,) = [path for path in (house.home / "blobs").iterdir() if path.name != "quarantine"]
    blobs = DirectoryBlobs(house.home / "blobs")
    assert raw in [blobs.get(UUID(folder.name), blob) for blob in blobs.hashes(UUID(folder.name))], (
        "the mail as it came"
    )


def test_mail_that_proves_nothing_leaves_no_file(house: House) -> None:
    mail = post.write("hello")
    mail.add_attachment(CONTENT, maintype="application", subtype="octet-stream", filename="data.bin")
    with contextlib.suppress(smtplib.SMTPException):
        post.send(house, mail, owner=False)
    house.say("$ true")
    assert not list((house.home / "blobs").glob("*/??/*"))
