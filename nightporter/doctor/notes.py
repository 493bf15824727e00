"""What is not wrong, but worth knowing of the settings as they are."""

from __future__ import annotations

from collections.abc import Iterator

from nightporter.doctor.check import Finding
from nightporter.settings import Settings


def notes(settings: Settings) -> Iterator[Finding]:
    """Mail authentication, access, the engine."""
    if settings.email.authentication == "dmarc":
        yield Finding(
            "email.authentication",
            "warn",
            "`dmarc` accepts only SMTP AUTH so far: other mail is refused.",
            "Log in as owner with the token, or set `trusted_relay` behind a mail server that checks senders.",
        )
    elif settings.email.authentication == "none":
        yield Finding(
            "email.authentication",
            "warn",
            "`none` believes every sender: whoever can reach the port can be anyone.",
            "Use it for tests only.",
        )
    if settings.access.policy == "pairing":
        yield Finding(
            "access.policy",
            "warn",
            "`pairing` acts as `allowlist` so far: strangers are not served.",
            "Name people in access.admins.",
        )
    elif settings.access.policy == "open":
        yield Finding("access.policy", "warn", "`open` serves every proven stranger.", "")
    if settings.engine.model == "operator":
        yield Finding(
            "engine.model", "ok", "The built-in operator runs commands and remembers; set engine.model for a model.", ""
        )
