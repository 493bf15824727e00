"""Who signed a delivery, and when: HMAC-SHA256 with the hook's secret, in the forms that senders use.

| form | headers | signed |
|---|---|---|
| `standard` | `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,BASE64 …` | `id.timestamp.body` |
| `stripe` | `Stripe-Signature: t=…,v1=HEX,…` | `timestamp.body` |
| `nightporter` | `X-Nightporter-Timestamp`, `X-Nightporter-Signature: sha256=HEX` | `timestamp.body` |
| `github` | `X-Hub-Signature-256: sha256=HEX` | `body` |

`standard` is https://www.standardwebhooks.com. The first form whose signature header is there counts, and no other.
Nothing is compared but in constant time.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

Form = Literal["standard", "stripe", "nightporter", "github"]

WINDOW_SECONDS = 300
TIMESTAMP = re.compile(r"[0-9]{1,12}")
# What the other forms sign must not pass as a body that is signed alone, without a time.
SIGNED_WITH_A_TIME = re.compile(rb"(?:[^.\s{]{1,256}\.)?[0-9]{9,12}\.")
DELIVERY_HEADERS = ("webhook-id", "svix-id", "x-nightporter-delivery", "x-github-delivery", "x-gitea-delivery",
                    "idempotency-key")  # fmt: skip
MAX_ID_CHARACTERS = 256
MAX_SIGNATURES = 16


@dataclass(frozen=True)
class Signed:
    """A delivery that the holder of the secret made. ``digest``: of all that was signed; ``id``: the sender's own name
    for the delivery, empty where it gives none; ``timely``: it was signed within the window, or has no time."""

    digest: str
    id: str
    timely: bool


@dataclass(frozen=True)
class _Claimed:
    """What the headers say: signatures, and what they are of."""

    form: Form
    signatures: tuple[bytes, ...]
    content: bytes
    at: str | None


def verify(secret: str, headers: Mapping[str, str], body: bytes, now: float, only: str = "any") -> Signed | None:
    """The delivery as its signature proves it; None: it does not. ``headers``: names in lower case."""
    claimed = _claimed(headers, body)
    if claimed is None:
        claimed = _Claimed("github", (b"",), body, None)
    # Whatever is wrong, the same is computed.
    right = [
        hmac.compare_digest(hmac.new(key, claimed.content, sha256).digest(), given)
        for key in _keys(secret)
        for given in claimed.signatures
    ]
    if not any(right) or only not in ("any", claimed.form):
        return None
    if claimed.form == "github" and SIGNED_WITH_A_TIME.match(body):
        return None
    timely = claimed.at is None or abs(now - int(claimed.at)) <= WINDOW_SECONDS
    named = next((headers[name] for name in DELIVERY_HEADERS if headers.get(name)), "")
    return Signed(sha256(claimed.content).hexdigest(), named[:MAX_ID_CHARACTERS], timely)


def _claimed(headers: Mapping[str, str], body: bytes) -> _Claimed | None:
    for prefix in ("webhook", "svix"):
        if f"{prefix}-signature" in headers:
            identifier, at = headers.get(f"{prefix}-id", ""), headers.get(f"{prefix}-timestamp", "")
            words = headers[f"{prefix}-signature"].split()[:MAX_SIGNATURES]
            given = tuple(_base64(word[3:]) for word in words if word.startswith("v1,"))
            return _timed("standard", given, f"{identifier}.{at}.", at, body)
    if "stripe-signature" in headers:
        pairs = [part.strip().partition("=") for part in headers["stripe-signature"].split(",")[: MAX_SIGNATURES + 1]]
        at = next((value for name, _, value in pairs if name == "t"), "")
        return _timed("stripe", tuple(_hex(value) for name, _, value in pairs if name == "v1"), f"{at}.", at, body)
    if "x-nightporter-signature" in headers:
        at = headers.get("x-nightporter-timestamp", "")
        given = (_hex(headers["x-nightporter-signature"].removeprefix("sha256=")),)
        return _timed("nightporter", given, f"{at}.", at, body)
    if "x-hub-signature-256" in headers:
        return _Claimed("github", (_hex(headers["x-hub-signature-256"].removeprefix("sha256=")),), body, None)
    return None


def _timed(form: Form, signatures: tuple[bytes, ...], before: str, at: str, body: bytes) -> _Claimed | None:
    if not TIMESTAMP.fullmatch(at):
        return None
    return _Claimed(form, signatures, before.encode("latin-1", "replace") + body, at)


def _keys(secret: str) -> Iterator[bytes]:
    """The secret as it is written, and as Standard Webhooks writes one: ``whsec_`` and base64."""
    yield secret.encode()
    if secret.startswith("whsec_"):
        yield _base64(secret.removeprefix("whsec_"))


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
