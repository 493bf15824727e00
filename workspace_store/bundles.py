"""A bundle: everything of a person as one file, to be brought to another installation and believed only when checked.

An uncompressed tar (POSIX ustar; GNU's binary sizes for members over 8 GiB) of regular files whose names are fixed:
``rows/TABLE.jsonl``, ``blobs/N/HASH``, ``volumes/N.tar.zst``, then ``manifest.json`` with the size and SHA-256 of each
before it, then ``signature.json`` over the manifest. Nothing is ever unpacked by its name; what differs in one byte is
refused. Written and read in pieces, never whole in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

FORMAT = 1
KIND = "nightporter-bundle"
MANIFEST, SIGNATURE = "manifest.json", "signature.json"
MAX_MANIFEST = 256 << 20
MAX_SIGNATURE = 4096
MAX_MEMBERS = 2_000_000
MAX_LINE = 64 << 20
PIECE = 1 << 20
_BLOCK = 512
_NAME = re.compile(r"rows/[a-z_]{1,40}\.jsonl|blobs/\d{1,4}/[0-9a-f]{64}|volumes/\d{1,4}\.tar\.zst")

Sign = Callable[[str], tuple[str, str]]
"""(signature, public key) of a text, hex."""
Verify = Callable[[str, str, str], bool]
"""Whether a text, a signature and a public key go together."""


class BundleRefused(Exception):
    """The file is no bundle, or not the one that was signed; nothing of it was used. The text says where."""


@dataclass(frozen=True)
class Member:
    """``offset``: where its content begins in the file."""

    name: str
    size: int
    sha256: str
    offset: int = 0


class Writer:
    """Writes a bundle into a file that can be sought in."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._members: list[Member] = []

    @contextlib.contextmanager
    def member(self, name: str) -> Iterator[BinaryIO]:
        """A member to write to, in pieces, until the block ends."""
        start = self._file.tell()
        self._file.write(b"\0" * _BLOCK)
        into = _Into(self._file)
        yield into  # type: ignore[misc]
        self._file.write(b"\0" * (-into.size % _BLOCK))
        end = self._file.tell()
        self._file.seek(start)
        self._file.write(_header(name, into.size))
        self._file.seek(end)
        self._members.append(Member(name, into.size, into.hasher.hexdigest()))

    def add(self, name: str, pieces: Iterable[bytes]) -> None:
        with self.member(name) as into:
            for piece in pieces:
                into.write(piece)

    def finish(self, head: Mapping[str, Any], sign: Sign) -> None:
        """Write the manifest, with what ``head`` says of the whole, and its signature."""
        members = [{"name": one.name, "size": one.size, "sha256": one.sha256} for one in self._members]
        manifest = json.dumps({"kind": KIND, "format": FORMAT, **head, "members": members}, indent=1)
        self.add(MANIFEST, [manifest.encode()])
        signature, public_key = sign(signed_text(manifest))
        self.add(SIGNATURE, [json.dumps({"signature": signature, "public_key": public_key}).encode()])
        self._file.write(b"\0" * 2 * _BLOCK)


def signed_text(manifest: str) -> str:
    """What is signed: never to be taken for anything else that the same key signs."""
    return f"{KIND} {FORMAT}\n{manifest}"


@dataclass
class _Into:
    file: BinaryIO

    def __post_init__(self) -> None:
        self.hasher, self.size = hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self.hasher.update(data)
        self.size += len(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()


def _header(name: str, size: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member.tobuf(tarfile.USTAR_FORMAT if size < 1 << 33 else tarfile.GNU_FORMAT)


@dataclass(frozen=True)
class Bundle:
    """A bundle whose every hash and signature held when it was read. ``head``: the manifest without its members."""

    head: Mapping[str, Any]
    members: Mapping[str, Member]
    public_key: str

    def names(self, folder: str) -> list[str]:
        return [name for name in self.members if name.startswith(f"{folder}/")]


def check(file: BinaryIO, verify: Verify, *, max_bytes: int) -> Bundle:
    """Read all of a bundle, once. Raises BundleRefused."""
    found: list[Member] = []
    kept: dict[str, bytearray] = {}
    total = 0
    for name, size in _members(file):
        total += size
        if total > max_bytes:
            raise BundleRefused(f"it holds more than {max_bytes:,} bytes, which is as much as is taken")
        limit = {MANIFEST: MAX_MANIFEST, SIGNATURE: MAX_SIGNATURE}.get(name)
        if limit is not None and size > limit:
            raise BundleRefused(f"its {name} is too long")
        offset, hasher = file.tell(), hashlib.sha256()
        for piece in _pieces(file, size):
            hasher.update(piece)
            if limit is not None:
                kept.setdefault(name, bytearray()).extend(piece)
        found.append(Member(name, size, hasher.hexdigest(), offset))
        if len(found) > MAX_MEMBERS:
            raise BundleRefused(f"it has more than {MAX_MEMBERS:,} members")
    if [one.name for one in found[-2:]] != [MANIFEST, SIGNATURE]:
        raise BundleRefused("it does not end with a manifest and its signature: it was cut off, or is no bundle")
    return _believed(found[:-2], kept, verify)


def _believed(found: list[Member], kept: Mapping[str, bytearray], verify: Verify) -> Bundle:
    try:
        text = kept[MANIFEST].decode()
        manifest, seal = json.loads(text), json.loads(kept[SIGNATURE])
        public_key, signature = str(seal["public_key"]), str(seal["signature"])
        listed = [(one["name"], one["size"], one["sha256"]) for one in manifest.pop("members")]
        kind, number = manifest.pop("kind"), manifest.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BundleRefused("its manifest or signature cannot be read") from error
    if not verify(signed_text(text), signature, public_key):
        raise BundleRefused("its signature does not fit its manifest: it was changed after it was signed")
    if kind != KIND or number != FORMAT:
        raise BundleRefused(f"its format is {number}, and this release reads {FORMAT}")
    if listed != [(one.name, one.size, one.sha256) for one in found]:
        wrong = next((one.name for one, said in zip(found, listed, strict=False)
                      if (one.name, one.size, one.sha256) != said), "the end")  # fmt: skip
        raise BundleRefused(f"it is not what was signed: see {wrong}")
    return Bundle(manifest, {one.name: one for one in found}, public_key)


def _members(file: BinaryIO) -> Iterator[tuple[str, int]]:
    """Names and sizes in order; the caller reads each content before it goes on."""
    file.seek(0)
    names = set[str]()
    while True:
        block = _exactly(file, _BLOCK)
        if block == b"\0" * _BLOCK:
            if _exactly(file, _BLOCK) != block or file.read(1):
                raise BundleRefused("something follows its end")
            return
        try:
            member = tarfile.TarInfo.frombuf(block, "ascii", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError) as error:
            raise BundleRefused("it is no tar file, or a damaged one") from error
        if member.type != tarfile.REGTYPE or member.size < 0:
            raise BundleRefused("it holds something else than plain files")
        name = member.name
        if name not in (MANIFEST, SIGNATURE) and not _NAME.fullmatch(name):
            raise BundleRefused(f"it holds {name!r}, which no bundle does")
        if name in names:
            raise BundleRefused(f"it holds {name} twice")
        names.add(name)
        start = file.tell()
        yield name, member.size
        file.seek(start + member.size)
        if any(_exactly(file, -member.size % _BLOCK)):
            raise BundleRefused(f"something stands behind {name}")


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise BundleRefused("it is cut off")
    return data


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        piece = _exactly(file, min(size, PIECE))
        size -= len(piece)
        yield piece


class Content(io.RawIOBase):
    """A member's bytes. ``finish`` says whether they are still what was checked: not before may they be relied on."""

    def __init__(self, file: BinaryIO, member: Member) -> None:
        self._file, self._member = file, member
        self._left, self._hasher = member.size, hashlib.sha256()
        file.seek(member.offset)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = _exactly(self._file, min(len(buffer), self._left, PIECE))
        self._left -= len(piece)
        self._hasher.update(piece)
        buffer[: len(piece)] = piece
        return len(piece)

    def finish(self) -> None:
        """Read what is left. Raises BundleRefused."""
        while self.read(PIECE):
            pass
        if self._hasher.hexdigest() != self._member.sha256:
            raise BundleRefused(f"{self._member.name} was changed while it was read")


def lines(file: BinaryIO, member: Member) -> Iterator[dict[str, Any]]:
    """The objects of a member of JSON lines. Raises BundleRefused."""
    content = Content(file, member)
    buffered = io.BufferedReader(content, PIECE)
    while line := buffered.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise BundleRefused(f"a line of {member.name} has more than {MAX_LINE:,} bytes")
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BundleRefused(f"{member.name} holds a line that is no JSON") from error
        if not isinstance(found, dict):
            raise BundleRefused(f"{member.name} holds a line that is no row")
        yield found
    content.finish()
