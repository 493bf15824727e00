"""The settings of the email channel, in the form its parts use: parsed once, checked once."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gateway.email import texts
from gateway.email.limits import MAX_BYTES


class BadEmailSetting(ValueError):
    """A setting that cannot be used; its words say which and what it must look like."""


@dataclass(frozen=True)
class EmailConfig:
    """`email.*` of the settings. `host` and `port` come from `email.listen`; port 0 takes any free port."""

    host: str = "127.0.0.1"
    port: int = 8025
    protocol: Literal["smtp", "lmtp"] = "smtp"
    address: str = "porter@localhost"
    relay: str = ""
    """`smtp://…` or `smtps://…`; empty: mail goes into a Maildir."""
    authentication: Literal["dmarc", "trusted_relay", "none"] = "dmarc"
    dns_server: tuple[str, int] | None = None
    """Host and port; None: the system's."""
    authserv_id: str = ""
    authserv_peers: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    fresh_hours: int = 72
    imap_url: str = ""
    max_bytes: int = MAX_BYTES
    reply_all: bool = False
    plus_addresses: bool = False
    dkim_key: str = field(default="", repr=False)
    dkim_selector: str = ""
    dkim_domain: str = ""
    tls_certificate: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        if self.protocol not in {"smtp", "lmtp"}:
            raise BadEmailSetting(texts.BAD_PROTOCOL.format(value=self.protocol))
        if self.address.count("@") != 1 or not all(self.address.split("@")):
            raise BadEmailSetting(texts.BAD_ADDRESS.format(address=self.address))
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise BadEmailSetting(texts.HALF_TLS)
        if bool(self.dkim_key) != bool(self.dkim_selector):
            raise BadEmailSetting(texts.HALF_DKIM)

    @property
    def domain(self) -> str:
        """What follows the @ of our address."""
        return self.address.rpartition("@")[2]

    @property
    def behind_own_server(self) -> bool:
        """Whether a mail server of ours hands the mail over: what we refuse, it would return to a forged sender."""
        return self.protocol == "lmtp" or bool(self.authserv_id)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect, so that a login needs no TLS."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def parse_listen(value: str) -> tuple[str, int]:
    """`host:port` as a pair; an IPv6 address stands in brackets. Raises BadEmailSetting."""
    host, colon, port = value.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadEmailSetting(texts.BAD_LISTEN.format(value=value))
    return host, int(port)
