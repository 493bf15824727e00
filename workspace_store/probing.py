"""Whether an object store does what volumes rely on, tried with an object of its own that is removed again."""

from __future__ import annotations

import contextlib
import secrets

from workspace_store.bucket import Bucket, Conflict, StoreUnavailable


class Unfit(Exception):
    """The store answers, and lets happen what must not."""


def probe(bucket: Bucket) -> None:
    """Raises StoreUnavailable, Unfit."""
    name, first, second = f"probe/{secrets.token_hex(12)}", b"first", b"second"
    try:
        tag = bucket.put_if(name, first, None)
        _refused(bucket, name, None, "it wrote over an object that was to be created only")
        if bucket.get(name) != (first, tag):
            raise Unfit("it does not give back what was just written")
        later = bucket.put_if(name, second, tag)
        _refused(bucket, name, tag, "it wrote over an object that had been changed meanwhile")
        if bucket.get(name) != (second, later):
            raise Unfit("it does not give back what was just written")
        if list(bucket.names("probe")) == []:
            raise Unfit("it does not list what was just written")
    except Conflict as error:
        raise Unfit("it refused to write an object that was as it had been seen") from error
    finally:
        with contextlib.suppress(StoreUnavailable):
            bucket.delete([name])


def _refused(bucket: Bucket, name: str, tag: str | None, otherwise: str) -> None:
    with contextlib.suppress(Conflict):
        bucket.put_if(name, b"third", tag)
        raise Unfit(otherwise)
