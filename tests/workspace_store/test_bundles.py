"""Bundles: what comes out is what was signed, and every other file is refused before anything of it is used."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightporter import signing
from workspace_store import bundles
from workspace_store.bundles import Bundle, BundleRefused, Content

BLOB = "ab" * 32
ROWS = "rows/note.jsonl"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make(tmp_path_factory.mktemp("home"))


def make(home: Path) -> bytes:
    file = io.BytesIO()
    writer = bundles.Writer(file)
    writer.add(ROWS, [b'{"a": 1}\n', b'{"a": 2}\n'])
    writer.add(f"blobs/0/{BLOB}", [b"x" * 1000])
    with writer.member("volumes/0.tar.zst") as into:
        into.write(b"")
    writer.finish({"user": "ann"}, lambda text: signing.sign(home, text))
    return file.getvalue()


def check(data: bytes, most: int = 1 << 20) -> Bundle:
    return bundles.check(io.BytesIO(data), signing.verifies, max_bytes=most)


def test_what_comes_out_is_what_went_in(made: bytes) -> None:
    found = check(made)
    assert found.head == {"user": "ann"}
    file = io.BytesIO(made)
    assert list(bundles.lines(file, found.members[ROWS])) == [{"a": 1}, {"a": 2}]
    content = Content(file, found.members[f"blobs/0/{BLOB}"])
    assert content.read() == b"x" * 1000
    content.finish()


def test_a_bundle_is_a_tar_file_that_anybody_can_look_into(made: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        assert archive.getnames()[-2:] == ["manifest.json", "signature.json"]
        member = archive.extractfile(ROWS)
        assert member is not None
        assert json.loads(member.readline()) == {"a": 1}


@given(st.data())
def test_a_changed_byte_anywhere_is_refused(made: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(made) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda one: one != made[position]))
    changed = made[:position] + bytes([value]) + made[position + 1 :]
    try:
        found = check(changed)
    except BundleRefused:
        return
    # What a tar says beside names and sizes (times, owners) is nothing that is ever used.
    assert (found.head, found.members, found.public_key) == (
        check(made).head,
        check(made).members,
        check(made).public_key,
    )


@given(st.data())
def test_a_bundle_that_was_cut_off_is_refused(made: bytes, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, len(made) - 1))
    with pytest.raises(BundleRefused):
        check(made[:end])


def test_more_at_its_end_is_refused(made: bytes) -> None:
    with pytest.raises(BundleRefused, match="follows"):
        check(made + b"\0" * 512)


def test_more_than_is_taken_is_refused(made: bytes) -> None:
    with pytest.raises(BundleRefused, match="more than 500 bytes"):
        check(made, 500)


def hostile(name: str, kind: bytes = tarfile.REGTYPE) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
        file.write(member.tobuf(tarfile.USTAR_FORMAT))

    return write


@pytest.mark.parametrize(
    "write",
    [
        hostile("../../etc/cron.d/x"), hostile("/etc/passwd"), hostile("rows/../x.jsonl"), hostile("rows/note.jsonl/x"),
        hostile(ROWS, tarfile.SYMTYPE), hostile(ROWS, tarfile.LNKTYPE), hostile(ROWS, tarfile.XHDTYPE),
        hostile(ROWS, tarfile.GNUTYPE_LONGNAME), hostile(ROWS, tarfile.FIFOTYPE), hostile("blobs/0/short"),
    ],
)  # fmt: skip
def test_names_links_and_headers_that_no_bundle_has_are_refused(write: Callable[[BinaryIO], None]) -> None:
    file = io.BytesIO()
    write(file)
    file.write(b"\0" * 1024)
    with pytest.raises(BundleRefused):
        check(file.getvalue())


def test_the_same_member_twice_is_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    writer = bundles.Writer(file)
    writer.add(ROWS, [b""])
    writer.add(ROWS, [b""])
    writer.finish({}, lambda text: signing.sign(tmp_path, text))
    with pytest.raises(BundleRefused, match="twice"):
        check(file.getvalue())


def test_a_signature_of_a_receipt_is_none_of_a_bundle(tmp_path: Path) -> None:
    """Both are made with the installation's key: what was signed says itself what it is."""
    file = io.BytesIO()
    writer = bundles.Writer(file)
    writer.finish({}, lambda text: signing.sign(tmp_path, text.partition("\n")[2]))
    with pytest.raises(BundleRefused, match="signature"):
        check(file.getvalue())


def test_what_was_changed_between_checking_and_reading_is_found(made: bytes) -> None:
    found = check(made)
    member = found.members[ROWS]
    changed = made[: member.offset] + b'{"a": 3}' + made[member.offset + 8 :]
    with pytest.raises(BundleRefused, match="changed while"):
        list(bundles.lines(io.BytesIO(changed), member))
