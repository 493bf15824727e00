"""An object store (S3 and what speaks like it): named bytes, and a way to change a name only where it is as one saw it.

Promises that what ``put`` and ``put_if`` return from is stored, and that errors say what to do. Faults of the server
and of the network are tried again for a while; a conditional write whose answer was lost is the caller's to look at.
Calls block, from any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workspace_store.packs import VolumeError, naming_full_disk

if TYPE_CHECKING:
    from obstore.store import S3Store

T = TypeVar("T")

CONNECT_SECONDS = 5
PATIENCE = 3
"""Timeouts of one request that may go by until the store is said to be away."""
_TRIES = 3
_MAX_BACKOFF_SECONDS = 2.0
_DELETED_AT_ONCE = 500


class StoreUnavailable(VolumeError, OSError):
    """The object store does not answer, or refuses; what was to be stored is not."""


class Conflict(Exception):
    """The name is not as it was seen: somebody else has written it since, or a lost answer was a success."""


@dataclass(frozen=True)
class BucketSettings:
    """``prefix``: before every name, without slashes at its ends. Empty keys: what the machine has."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = "us-east-1"
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    allow_http: bool = False
    virtual_hosted: bool = False
    timeout_seconds: float = 10.0

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


class Bucket:
    """One prefix of a bucket."""

    def __init__(self, settings: BucketSettings) -> None:
        """Nothing is asked of the store yet. Raises StoreUnavailable for settings that cannot be."""
        self.settings = settings
        self._store = _opened(settings)

    def get(self, name: str) -> tuple[bytes, str] | None:
        """The bytes and their tag; None: there is nothing of that name."""
        import obstore

        def read() -> tuple[bytes, str] | None:
            try:
                found = obstore.get(self._store, name)
            except FileNotFoundError:
                return None
            return bytes(found.bytes()), str(found.meta["e_tag"])

        return self._again(f"read {name}", read)

    def ranges(self, name: str, starts: Sequence[int], lengths: Sequence[int]) -> list[bytes] | None:
        """Parts of one object, in the order they were asked for; None: there is nothing of that name."""
        import obstore

        def read() -> list[bytes] | None:
            try:
                found = obstore.get_ranges(self._store, name, starts=starts, lengths=lengths, coalesce=64 << 10)
            except FileNotFoundError:
                return None
            return [bytes(part) for part in found]

        return self._again(f"read {name}", read)

    def fetch(self, name: str, to: Path) -> bool:
        """Write an object into a new file, in pieces; False: there is nothing of that name. Not durable.

        Raises VolumeFull.
        """
        import obstore

        def read() -> bool:
            try:
                found = obstore.get(self._store, name)
            except FileNotFoundError:
                return False
            with naming_full_disk(), to.open("wb") as file:
                for piece in found.stream(min_chunk_size=1 << 20):
                    file.write(piece)
            return True

        return self._again(f"read {name}", read)

    def has(self, name: str) -> bool:
        import obstore

        def look() -> bool:
            try:
                obstore.head(self._store, name)
            except FileNotFoundError:
                return False
            return True

        return self._again(f"look for {name}", look)

    def put(self, name: str, data: bytes | Path) -> None:
        """Store under a name that only one writer ever uses, or with the same content always."""
        import obstore

        self._again(f"write {name}", lambda: obstore.put(self._store, name, data))

    def put_if(self, name: str, data: bytes, tag: str | None) -> str:
        """Replace what has this tag (None: create what is not there yet); the new tag. Raises Conflict."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if tag is None else {"e_tag": tag}

        def write() -> str:
            try:
                return str(obstore.put(self._store, name, data, mode=mode, use_multipart=False)["e_tag"])
            except (AlreadyExistsError, PreconditionError) as error:
                raise Conflict(name) from error

        return self._again(f"write {name}", write)

    def delete(self, names: Sequence[str]) -> None:
        """Destructive, idempotent."""
        import obstore

        for start in range(0, len(names), _DELETED_AT_ONCE):
            part = list(names[start : start + _DELETED_AT_ONCE])

            def remove(part: list[str] = part) -> None:
                try:
                    obstore.delete(self._store, part)
                except FileNotFoundError:
                    return

            self._again(f"remove {part[0]}", remove)

    def names(self, folder: str, *, older_than: float = 0.0) -> Iterator[str]:
        """Names below ``folder``, written at least so many seconds ago where the clocks agree."""
        import obstore

        def read() -> list[tuple[str, datetime]]:
            listed = obstore.list(self._store, f"{folder}/", chunk_size=1000)
            return [(one["path"], one["last_modified"]) for chunk in listed for one in chunk]

        before = datetime.now(UTC) - timedelta(seconds=older_than)
        for name, modified in self._again(f"list {folder}", read):
            if not older_than or modified <= before:
                yield name

    def _again(self, what: str, call: Callable[[], T]) -> T:
        """obstore repeats requests that the server failed; here what it does not: bodies and writes cut short."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        deadline = time.monotonic() + self.settings.timeout_seconds * PATIENCE
        for attempt in range(1, _TRIES + 1):
            try:
                return call()
            except (PermissionDeniedError, UnauthenticatedError) as error:
                raise StoreUnavailable(
                    f"{self.settings.url} refuses to {what}: check storage.access_key, storage.secret_key and their "
                    f"rights ({_first_line(error)})"
                ) from error
            except FileNotFoundError as error:
                raise StoreUnavailable(f"there is no bucket {self.settings.bucket}: create it") from error
            except (BaseError, OSError) as error:
                if attempt == _TRIES or time.monotonic() >= deadline:
                    raise StoreUnavailable(
                        f"the object store {self.settings.url} does not let {what}: {_first_line(error)}"
                    ) from error
                time.sleep(0.1 * 2**attempt)
        raise AssertionError


def _opened(settings: BucketSettings) -> S3Store:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError as error:
        raise StoreUnavailable("volumes_url is s3://, for which `pip install 'nightporter[s3]'` is needed") from error
    config: dict[str, Any] = {
        "region": settings.region, "virtual_hosted_style_request": settings.virtual_hosted, "conditional_put": "etag",
    }  # fmt: skip
    named = {
        "endpoint": settings.endpoint, "access_key_id": settings.access_key, "secret_access_key": settings.secret_key,
        "session_token": settings.session_token,
    }  # fmt: skip
    config |= {key: value for key, value in named.items() if value}
    seconds = timedelta(seconds=settings.timeout_seconds)
    backoff: Any = {
        "init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=_MAX_BACKOFF_SECONDS), "base": 2,
    }  # fmt: skip
    try:
        return S3Store(
            settings.bucket,
            prefix=settings.prefix or None,
            config=config,  # type: ignore[arg-type]
            client_options={
                "allow_http": settings.allow_http,
                "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                "read_timeout": seconds,
                "timeout": seconds * PATIENCE,
            },
            retry_config={"max_retries": 8, "retry_timeout": seconds * PATIENCE, "backoff": backoff},
        )
    except (BaseError, ValueError) as error:
        raise StoreUnavailable(f"{settings.url} cannot be used: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:400]
