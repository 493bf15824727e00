"""A DNS server with ``example.org`` in it, and a prover that asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from gateway.email.proof.lookups import Resolver
from gateway.email.proof.prover import Evidence, Prover
from nightporter.testing.dns import DnsServer
from nightporter.testing.mail import MailDomain

OWN = "porter@agent.example"

Judge = Callable[..., str]


@pytest.fixture
def dns() -> Iterator[DnsServer]:
    with DnsServer() as server:
        yield server


@pytest.fixture
def resolver(dns: DnsServer) -> Resolver:
    return Resolver(("127.0.0.1", dns.port), seconds=1.0)


@pytest.fixture
def prover(resolver: Resolver) -> Iterator[Prover]:
    found = Prover(OWN, resolver, timedelta(hours=72))
    yield found
    found.close()


@pytest.fixture
def ann(dns: DnsServer) -> MailDomain:
    return MailDomain(dns, "example.org")


@pytest.fixture
def judge(prover: Prover) -> Judge:
    """The address that a mail proves. Raises as the prover does."""

    def judge(
        raw: bytes, peer: str = "192.0.2.1", envelope_from: str = "x@relay.test", helo: str = "relay.test"
    ) -> str:
        return prover.judge(Evidence(raw, peer, helo, envelope_from, datetime.now(UTC))).author.address

    return judge
