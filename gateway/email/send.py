"""Delivers a composed mail to a relay, and says what became of it in one of four words."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import aiosmtplib
import structlog

from gateway.channel import Outcome, Refused, Retry, Sent, Uncertain
from gateway.email import texts
from gateway.email.compose import ComposedMail
from gateway.email.config import BadEmailSetting, is_loopback

log = structlog.get_logger()


@dataclass(frozen=True)
class SmtpRelay:
    """A relay given as `smtp://[user:password@]host[:port]` or `smtps://…`. Raises BadEmailSetting for another form.

    With `smtp://` TLS is used where it is offered; its certificate is checked if a password is sent or with `smtps://`.
    """

    url: str
    timeout: float = 60.0
    local_hostname: str = "localhost"

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            bad = parts.scheme not in {"smtp", "smtps"} or not parts.hostname or parts.port == 0
        except ValueError:
            bad = True
        if bad:
            raise BadEmailSetting(texts.BAD_RELAY.format(url=_without_password(self.url)))

    @property
    def name(self) -> str:
        """`host:port`, fit for a log."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or (465 if parts.scheme == 'smtps' else 25)}"

    async def deliver(self, mail: ComposedMail) -> Outcome:
        """Try once. Never raises for what the network or the relay does."""
        parts = urlsplit(self.url)
        implicit = parts.scheme == "smtps"
        secret = parts.username is not None
        client = aiosmtplib.SMTP(
            hostname=parts.hostname,
            port=parts.port or (465 if implicit else 25),
            use_tls=implicit,
            start_tls=False,
            tls_context=_tls(checked=implicit or secret),
            local_hostname=self.local_hostname,
            timeout=self.timeout,
        )
        try:
            return await self._attempt(client, mail, implicit=implicit)
        finally:
            client.close()

    async def _attempt(self, client: aiosmtplib.SMTP, mail: ComposedMail, *, implicit: bool) -> Outcome:
        try:
            await client.connect()
            await client.ehlo()
            if not implicit and client.supports_extension("starttls"):
                await client.starttls(tls_context=_tls(checked=self._credentials is not None))
                await client.ehlo()
                implicit = True
            refused = await self._login(client, encrypted=implicit)
            if refused:
                return refused
            if mail.smtputf8 and not client.supports_extension("smtputf8"):
                return Refused(texts.RELAY_SAID.format(code="", message="SMTPUTF8 is not supported (RFC 6531)"))
            encoding = "utf-8" if mail.smtputf8 else "ascii"
            options = ["SMTPUTF8", "BODY=8BITMIME"] if mail.smtputf8 else []
            if client.supports_extension("size"):
                options.append(f"SIZE={len(mail.data)}")
            await client.mail(mail.sender, options=options, encoding=encoding)
            await self._name_recipients(client, mail, encoding)
        except aiosmtplib.SMTPResponseException as error:
            return _classified(error.code, error.message)
        except (aiosmtplib.SMTPException, OSError, TimeoutError, ssl.SSLError, UnicodeError) as error:
            return Retry(
                texts.RELAY_UNREACHABLE.format(relay=self.name, reason=str(error) or type(error).__name__), outage=True
            )
        return await self._data(client, mail)

    async def _name_recipients(self, client: aiosmtplib.SMTP, mail: ComposedMail, encoding: str) -> None:
        """Whom it is for; that another reader is not there keeps nothing from whoever asked."""
        first, *others = mail.recipients
        await client.rcpt(first, encoding=encoding)
        for recipient in others:
            try:
                await client.rcpt(recipient, encoding=encoding)
            except aiosmtplib.SMTPResponseException as error:
                log.info("another reader was refused", relay=self.name, code=error.code)

    async def _data(self, client: aiosmtplib.SMTP, mail: ComposedMail) -> Outcome:
        """From here on a lost connection leaves open whether the relay has the message."""
        try:
            response = await client.data(mail.data)
        except aiosmtplib.SMTPResponseException as error:
            return _classified(error.code, error.message)
        except (aiosmtplib.SMTPException, OSError, TimeoutError, ssl.SSLError):
            return Uncertain(texts.RESPONSE_LOST, outage=True)
        # It has the message: how it says goodbye does not matter.
        with contextlib.suppress(aiosmtplib.SMTPException, OSError, TimeoutError, ssl.SSLError):
            async with asyncio.timeout(2):
                await client.quit()
        return Sent(f"{response.code} {response.message}"[:300])

    @property
    def _credentials(self) -> tuple[str, str] | None:
        parts = urlsplit(self.url)
        return None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))

    async def _login(self, client: aiosmtplib.SMTP, *, encrypted: bool) -> Outcome | None:
        if self._credentials is None:
            return None
        if not encrypted and not is_loopback(urlsplit(self.url).hostname or ""):
            return Retry(texts.RELAY_NEEDS_TLS.format(relay=self.name), seconds=300)
        try:
            await client.login(*self._credentials)
        except (aiosmtplib.SMTPAuthenticationError, aiosmtplib.SMTPNotSupported) as error:
            return Retry(texts.RELAY_REFUSED_LOGIN.format(relay=self.name, reason=error), seconds=300)
        return None


def _classified(code: int, message: str) -> Outcome:
    """4xx may pass, 5xx will not (RFC 5321, 4.2.1)."""
    reason = texts.RELAY_SAID.format(code=code, message=" ".join(message.split())[:500])
    return Refused(reason) if code >= 500 else Retry(reason, outage=True)


def _tls(*, checked: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not checked:  # opportunistic TLS (RFC 7435): better than none, and proves nothing
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    scheme, slashes, _ = head.partition("://")
    return f"{scheme}{slashes}…@{tail}" if at else url
