"""Files over HTTP: forms in, downloads out, each bounded and each its owner's."""

from __future__ import annotations

import asyncio
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.local.downloads import disposition
from router.inbox import Accepted
from tests.gateway.local.test_http import Gateway, serving
from workspace_store import attachments, inbox, inbox_counts, outbox
from workspace_store.blobs import BlobMissing, DirectoryBlobs
from workspace_store.database import Database
from workspace_store.file_limits import FileLimits
from workspace_store.outbox import Address

LIMITS = FileLimits(max_bytes=1000, max_message_bytes=2500, max_count=3)


@pytest.fixture
async def gateway(sqlite: Database, tmp_path: Path) -> Any:
    async with serving(sqlite, tmp_path / "lives") as found:
        found.inbox.blobs = DirectoryBlobs(tmp_path / "blobs")
        found.inbox.file_limits = LIMITS
        yield found


async def send(gateway: Gateway, *files: tuple[str, bytes], **fields: str) -> Any:
    form = [("file", (name, content, "text/plain")) for name, content in files]
    return await gateway.client.post("/v1/messages", data=fields, files=form)


def kept(gateway: Gateway, accepted: Accepted) -> list[attachments.File]:
    return gateway.database.read_now(lambda connection: attachments.of(connection, [accepted.message]))


async def test_files_of_a_form_are_kept_before_it_is_accepted(gateway: Gateway) -> None:
    answer = await send(gateway, ("a.txt", b"one"), ("../a.txt", b"two"), text="look", message_id="m1")
    (accepted,) = gateway.rung
    assert (answer.status_code, answer.json()["message_id"]) == (202, "m1")
    found = kept(gateway, accepted)
    assert [(file.name, file.status, file.content_type) for file in found] == [
        ("a.txt", "stored", "text/plain"),
        ("a-2.txt", "stored", "text/plain"),
    ]
    blobs = gateway.inbox.blobs
    assert blobs is not None
    assert [blobs.get(accepted.principal, str(file.blob)) for file in found] == [b"one", b"two"]
    again = await send(gateway, ("other", b"three"), text="look", message_id="m1")
    assert (again.status_code, len(gateway.rung), len(kept(gateway, accepted))) == (202, 1, 2)
    assert len(list(blobs.hashes(accepted.principal))) == 2, "what the first one did not bring is not kept"


async def test_a_file_needs_no_words_and_words_need_something(gateway: Gateway) -> None:
    assert (await send(gateway, ("a.txt", b"one"))).status_code == 202
    assert (await gateway.client.post("/v1/messages", files=[("text", (None, " "))])).status_code == 400


async def test_a_first_try_that_was_cut_off_is_made_whole_by_the_next(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(principal: object, data: bytes) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(gateway.inbox.blobs, "put", full)
        assert (await send(gateway, ("a.txt", b"one"), text="x", message_id="m1")).status_code == 503
    (accepted,) = gateway.rung
    assert [file.status for file in kept(gateway, accepted)] == ["waiting"]
    assert (await send(gateway, ("a.txt", b"one"), text="x", message_id="m1")).status_code == 202
    assert [file.status for file in kept(gateway, accepted)] == ["stored"]
    assert len(gateway.rung) == 1


@pytest.mark.parametrize(
    ("files", "status", "says"),
    [
        ([("a", b"x" * 1001)], 413, "1,000 bytes"),
        ([("a", b"1"), ("b", b"2"), ("c", b"3"), ("d", b"4")], 400, "Too many files"),
        ([("a", b"x" * (5 << 20))], 413, "too long"),
    ],
)
async def test_caps_are_told(gateway: Gateway, files: list[tuple[str, bytes]], status: int, says: str) -> None:
    answer = await send(gateway, *files, text="x")
    assert answer.status_code == status
    assert says in answer.json()["error"]
    assert gateway.count("inbox") == 0


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=b", b"--x\r\n\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\nx\r\n--b--\r\n"),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"X: y\r\n" * 20_000 + b"\r\nx\r\n--b--\r\n"),
        (
            "multipart/form-data; boundary=b; charset=zip",
            b"--b\r\nContent-Disposition: form-data; name=t\r\n\r\nx\r\n--b--",
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="wrong"; filename="x"\r\n\r\nx\r\n--b--\r\n',
        ),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\ncut off',
        ),
    ],
)
async def test_what_is_no_form_is_answered_at_once_and_nothing_is_kept(
    gateway: Gateway, content_type: str, body: bytes
) -> None:
    started = time.monotonic()
    answer = await gateway.client.post("/v1/messages", content=body, headers={"content-type": content_type})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]
    assert time.monotonic() - started < 5
    assert gateway.count("inbox") == 0


def reply(gateway: Gateway, accepted: Accepted, **file: Any) -> None:
    blobs = gateway.inbox.blobs
    assert blobs is not None
    content = file.pop("content")
    given = {"content_type": "text/html", "size": len(content), "blob": blobs.put(accepted.principal, content), **file}
    queue = partial(
        outbox.queue, key=accepted.message.hex, principal=accepted.principal, turn=None, inbox=accepted.message,
        to=Address("local", "", "owner", ""), content={"text": "here", "files": [given]},
    )  # fmt: skip

    def transaction(connection: Any) -> None:
        inbox.finish(connection, [accepted.message], "done")
        inbox_counts.drained(connection, accepted.principal)
        queue(connection)

    gateway.database.write_now(transaction)


async def test_a_files_bytes_are_downloaded_with_the_token_and_never_shown(gateway: Gateway) -> None:
    await gateway.say(text="x", message_id="m 1")
    (accepted,) = gateway.rung
    content = b"<script>alert(1)</script>" * 100
    reply(gateway, accepted, name='Bücher "x"\r\nX-Evil: 1.html', content=content)
    (said,) = (await gateway.client.get("/v1/messages/m 1")).json()["replies"]
    (file,) = said["files"]
    assert (file["size"], file["content_type"]) == (len(content), "text/html")
    answer = await gateway.client.get(file["url"])
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert "x-evil" not in answer.headers
    without = await gateway.client.get(file["url"], headers={"authorization": "Bearer wrong"})
    assert without.status_code == 401


async def test_a_file_is_its_owners(gateway: Gateway) -> None:
    await gateway.say(text="x", message_id="m1")
    await gateway.say(text="x", message_id="m1", user="bob")
    ann, bob = gateway.rung
    reply(gateway, bob, name="secret.txt", content=b"bob's")
    reply(gateway, ann, name="mine.txt", content=b"ann's")
    (said,) = (await gateway.client.get("/v1/messages/m1", params={"user": "bob"})).json()["replies"]
    url = said["files"][0]["url"]
    assert (await gateway.client.get(url)).content == b"bob's"
    assert (await gateway.client.get(urlsplit(url).path)).content == b"ann's", "without a name it is the owner's own"
    assert (await gateway.client.get(urlsplit(url).path, params={"user": "carol"})).status_code == 404
    for other in ("0/1", "1/0", "99999999999999999999/0"):
        assert (await gateway.client.get(f"/v1/messages/m1/files/{other}")).status_code == 404
    for other in ("-1/0", "0/x", "../../../etc/passwd"):
        assert (await gateway.client.get(f"/v1/messages/m1/files/{other}")).status_code == 404
    blobs = gateway.inbox.blobs
    assert blobs is not None
    with pytest.raises(BlobMissing):
        blobs.get(ann.principal, next(iter(blobs.hashes(bob.principal))))


@pytest.mark.parametrize("name", ['a"b', "a\r\nb", "a;b", "../x", "naïve.txt", "日本.txt", "%41", ""])
def test_a_disposition_is_one_header_of_printable_ascii(name: str) -> None:
    found = disposition(name)
    assert found.isascii()
    assert found.isprintable()
    assert found.count('"') == 2


async def test_an_upload_that_does_not_end_is_ended(gateway: Gateway) -> None:
    host, port = gateway.client.base_url.host, gateway.client.base_url.port
    token = gateway.client.headers["authorization"]
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\ncontent-length: 999999999\r\n"
    with socket.create_connection((host, port or 80)) as connection:
        connection.sendall(f"{head}content-type: multipart/form-data; boundary=b\r\n\r\n".encode())
        answer = await asyncio.to_thread(connection.recv, 4096)
    assert b" 413 " in answer
