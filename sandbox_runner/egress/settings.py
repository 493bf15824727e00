"""Settings of what may leave a sandbox. What is wrong in them is an error at start, never a hole later."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from sandbox_runner.egress.credentials import Credential, Keyring
from sandbox_runner.egress.rules import Place, Rule
from workspace_store.section import PositiveInt, Secret, Section, SettingsPath

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\xa1-\xff]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_NOT_HEADERS = ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect")


def _rules(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        Rule.parse(entry)
    return entries


def _places(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        Place.parse(entry)
    return entries


def _place(entry: str) -> str:
    Place.parse(entry)
    return entry


class EgressCredential(Section):
    """One entry of ``egress.credentials``: a secret that the egress proxy adds outside the sandbox.

    ``value`` is the whole value of the header, such as ``Bearer …``. ``env`` names a variable that is set inside to a
    placeholder, for programs that want one.
    """

    host: Annotated[str, AfterValidator(_place)]
    header: str = "Authorization"
    env: str = ""
    value: Secret = ""
    value_file: SettingsPath = None
    methods: tuple[str, ...] = ("GET", "HEAD")
    paths: tuple[str, ...] = ("/",)

    @model_validator(mode="after")
    def _usable(self) -> EgressCredential:
        if not self.value:
            raise ValueError("a credential needs value or value_file; write for example value_file = 'github.token'")
        if not _VALUE.fullmatch(self.value):
            raise ValueError("a credential's value is one line of printable text, as in Bearer abc123")
        if not _HEADER.fullmatch(self.header) or self.header.lower() in _NOT_HEADERS:
            raise ValueError(f"{self.header!r} is not a header that can carry a secret, as Authorization can")
        if self.env and not _VARIABLE.fullmatch(self.env):
            raise ValueError(f"{self.env!r} is not a name of an environment variable, as GITHUB_TOKEN is")
        for method in self.methods:
            if not _METHOD.fullmatch(method) or method in ("CONNECT", "TRACE"):
                raise ValueError(f"{method!r} is not a method that can be granted; write for example GET, HEAD, POST")
        for path in self.paths:
            if not path.startswith("/") or "?" in path or not path.isascii():
                raise ValueError(f"{path!r} is not a path; write for example / or /repos/me/")
        if not self.methods or not self.paths:
            raise ValueError("a credential without methods or paths grants nothing; leave them out for GET and /")
        return self

    def credential(self) -> Credential:
        return Credential(
            Place.parse(self.host), self.header.lower().encode(), self.value, frozenset(self.methods), self.paths
        )


def _certificates(path: Path | None) -> Path | None:
    if path is not None:
        try:
            ssl.create_default_context(cafile=str(path))
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"{path} holds no certificates that can be read (PEM): {error}") from error
    return path


class EgressSettings(Section):
    """``[egress]``: what a sandbox may reach."""

    allow: Annotated[tuple[str, ...], AfterValidator(_rules)] = ()
    """What sandboxes may reach without asking: `host`, `*.host`, `host:port`, `GET\\|HEAD host`, `tcp://host:port`."""
    allow_private: Annotated[tuple[str, ...], AfterValidator(_places)] = ()
    """Hosts (`host`, `*.host`, `host:port`) that may resolve to private addresses, such as a package mirror."""
    credentials: tuple[EgressCredential, ...] = Field(default=(), repr=False)
    """Secrets that the proxy adds: tables `{host, header, env, value or value_file, methods, paths}`."""
    ca_file: Annotated[SettingsPath, AfterValidator(_certificates)] = None
    """Certificates (PEM) to trust besides the system's, by the proxy and inside sandboxes."""
    daily_requests: PositiveInt = 20000
    """Requests and tunnels that a principal's sandboxes may make in a day (UTC)."""
    daily_mb: PositiveInt = 10240
    """Data that a principal's sandboxes may send and receive in a day (UTC), in MB."""

    def rules(self) -> tuple[Rule, ...]:
        return tuple(map(Rule.parse, self.allow))

    def private(self) -> tuple[Place, ...]:
        return tuple(map(Place.parse, self.allow_private))

    def keyring(self) -> Keyring:
        return Keyring(tuple(entry.credential() for entry in self.credentials))

    def environment(self) -> dict[str, str]:
        """Variables set inside: for programs that do not start without a token, and what is not asked of the proxy.

        A sandbox's own loopback is its own. Only a name of it that the settings allow, though it is private, is meant
        to be this machine's; the sandbox's own servers then go by the other names.
        """
        found = {entry.env: PLACEHOLDER for entry in self.credentials if entry.env}
        outside = {rule.place.pattern.host for rule in self.rules()} & {place.pattern.host for place in self.private()}
        if outside.intersection(_LOOPBACK):
            found |= dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(n for n in _LOOPBACK if n not in outside))
        return found

    @property
    def terminates(self) -> bool:
        """Whether TLS is ended here for any host, so that sandboxes have to trust our authority."""
        return bool(self.credentials) or any(rule.methods for rule in self.rules())


PLACEHOLDER = "provided-by-nightporter-outside-the-sandbox"
