"""Settings of the ways in and out: HTTP, email, Slack and Telegram."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gateway.hooks.template import check as readable_template
from workspace_store.section import (
    Address,
    HostPort,
    OptionalHostPort,
    PositiveInt,
    Secret,
    Section,
    SettingsPath,
    WebUrl,
    url_of,
)


def _bare(value: str) -> str:
    if not value:
        return value
    parts = urlsplit(value)
    if parts.query or parts.fragment or parts.username or not parts.hostname or not value.isascii() or " " in value:
        raise ValueError("it is more than an address and a path; write for example https://porter.example.org")
    return value


PublicUrl = Annotated[WebUrl, AfterValidator(_bare)]


class HttpSettings(Section):
    """``[http]``: the local channel, the console and the platforms' webhooks."""

    listen: HostPort = Address("127.0.0.1", 8787)
    """Where HTTP is served, `host:port`."""
    token: Secret = ""
    """Bearer token of the owner; made at first start into `<home>/token` (mode 0600) when not set."""
    token_file: SettingsPath = None
    """File that holds `token`."""
    public_url: PublicUrl = ""
    """Where people reach this (`https://porter.example.org`): questions link to their page. Empty: no links."""
    max_hook_bytes: PositiveInt = 1 << 20
    """Largest delivery to a hook that is accepted, in bytes."""


class HookSettings(Section):
    """``[hooks.NAME]``: what another program tells the agent, at `POST /hooks/NAME`."""

    secret: Secret = ""
    """What its deliveries are signed with; needed. `whsec_…` is taken as Standard Webhooks writes it."""
    secret_file: SettingsPath = None
    """File that holds `secret`."""
    user: str = "owner"
    """Who is told: a user (`owner`, `local:ann`, `email:ann@example.org`, a UUID) or a room (`slack:T1/C1`)."""
    template: Annotated[str, AfterValidator(readable_template)] = "Something was delivered to the hook {hook}."
    """The message, with values of the delivery: `{/json/pointer}`, `{header:X-Event}`, `{hook}`, `{id}`."""
    signature: Literal["any", "standard", "stripe", "nightporter", "github"] = "any"
    """The one form of signature that is taken, or `any` of them."""

    @model_validator(mode="after")
    def _signed(self) -> Self:
        if len(self.secret) < 16:
            raise ValueError("secret has fewer than 16 characters; make one with `openssl rand -hex 32`")
        return self


class SlackSettings(Section):
    """``[slack]``: one Slack app."""

    bot_token: Secret = ""
    """Token of the bot (`xoxb-…`); Slack is off without it."""
    bot_token_file: SettingsPath = None
    """File that holds `bot_token`."""
    app_token: Secret = ""
    """App-level token (`xapp-…`), for Socket Mode."""
    app_token_file: SettingsPath = None
    """File that holds `app_token`."""
    signing_secret: Secret = ""
    """Signing secret, for the Events API at `/slack/events`."""
    signing_secret_file: SettingsPath = None
    """File that holds `signing_secret`."""
    api_url: Annotated[WebUrl, Field(pattern=r"/api/$")] = "https://slack.com/api/"
    """Address of Slack's Web API; ends in `/api/`."""


class TelegramSettings(Section):
    """``[telegram]``: one Telegram bot."""

    token: Secret = ""
    """Token of the bot; Telegram is off without it."""
    token_file: SettingsPath = None
    """File that holds `token`."""
    api_url: WebUrl = "https://api.telegram.org"
    """Address of the Bot API: the part before `/bot<token>`."""
    webhook_url: WebUrl = ""
    """Public address that ends in `/telegram/webhook`; updates are polled for when not set."""
    webhook_secret: Secret = ""
    """Secret that Telegram sends along with each webhook call."""
    webhook_secret_file: SettingsPath = None
    """File that holds `webhook_secret`."""
    business: bool = False
    """Answer messages to business accounts that the bot is connected to."""


def _mail_address(value: str) -> str:
    local, at, domain = value.rpartition("@")
    if not (local and at and domain) or any(c.isspace() or c in "<>,;" for c in value):
        raise ValueError(f"{value!r} is not a mail address; write for example porter@example.org")
    return value


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value, strict=False))
    except ValueError as error:
        raise ValueError(f"{value!r} is no address or network; write for example 10.0.0.0/8") from error


class EmailSettings(Section):
    """``[email]``: mail in and out."""

    listen: HostPort = Address("127.0.0.1", 8025)
    """Where mail is received, `host:port`."""
    protocol: Literal["smtp", "lmtp"] = "smtp"
    """What is spoken there: `smtp`, or `lmtp` behind a mail server of one's own."""
    address: Annotated[str, AfterValidator(_mail_address)] = "porter@localhost"
    """The agent's own address."""
    relay: Annotated[Secret, AfterValidator(url_of("smtp", "smtps"))] = ""
    """Where replies go: `smtp://user:password@host:port` or `smtps://…`; into `<home>/outgoing-mail` when empty."""
    relay_file: SettingsPath = None
    """File that holds `relay`."""
    authentication: Literal["dmarc", "trusted_relay", "none"] = "dmarc"
    """What proves a sender: `dmarc`, `trusted_relay` (the relay checked it), or `none` (for tests only)."""
    dns_server: OptionalHostPort = None
    """DNS server that senders are checked with, `host:port`; the system's when not set."""
    authserv_id: str = ""
    """Name under which one's own mail server writes `Authentication-Results`; others' are ignored."""
    authserv_peers: tuple[Annotated[str, AfterValidator(_network)], ...] = ("127.0.0.0/8", "::1/128")
    """From where that server delivers to the agent, addresses or networks: its word is believed from there only."""
    fresh_hours: Annotated[PositiveInt, Field(le=87_600)] = 72
    """How old a mail may be by its Date and its signature; an older one may be sent again by anybody."""
    imap_url: Annotated[Secret, AfterValidator(url_of("imap", "imaps"))] = ""
    """Mailbox to fetch mail from: `imaps://user:password@host/folder`."""
    imap_url_file: SettingsPath = None
    """File that holds `imap_url`."""
    reply_all: bool = False
    """Whether answers to a mail with several recipients also go to those; questions and commands' answers never do."""
    max_bytes: PositiveInt = 25 * 1024 * 1024
    """Largest mail that is accepted, in bytes."""
    plus_addresses: bool = False
    """Answers ask for replies to `porter+TOKEN@…`, which finds the thread again; mail to such addresses must arrive."""
    dkim_key: Secret = ""
    """Private key (PEM, RSA or Ed25519) that outgoing mail is signed with."""
    dkim_key_file: SettingsPath = None
    """File that holds `dkim_key`."""
    dkim_selector: str = ""
    """Name under which its public key stands in DNS: `<selector>._domainkey.<domain>`."""
    dkim_domain: str = ""
    """Domain that signs; that of `address` when not set."""
    tls_certificate: SettingsPath = None
    """Certificate chain (PEM) for STARTTLS."""
    tls_key: SettingsPath = None
    """Private key (PEM) of `tls_certificate`."""

    @model_validator(mode="after")
    def _certificate_and_key(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together; set both or none")
        if bool(self.dkim_key) != bool(self.dkim_selector):
            raise ValueError("dkim_key and dkim_selector belong together; set both or none")
        return self
