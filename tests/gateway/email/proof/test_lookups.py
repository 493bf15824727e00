"""DNS for the checks of senders: cached for as long as it may be, over TCP where it must be, never guessed."""

from __future__ import annotations

import time

import pytest

from gateway.email.proof.lookups import Lookups, Resolver, TooManyLookups
from gateway.email.senders import TryAgain
from nightporter.testing.dns import DnsServer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_is_remembered_for_its_time_and_no_longer(dns: DnsServer) -> None:
    clock = Clock()
    resolver = Resolver(("127.0.0.1", dns.port), clock=clock)
    dns.ttl = 100
    dns.txt("a.test", "one")
    assert Lookups(resolver).texts("A.test.") == [b"one"]
    dns.remove("a.test", "TXT")
    clock.now += 99
    assert Lookups(resolver).texts("a.test") == [b"one"]
    clock.now += 2
    assert Lookups(resolver).texts("a.test") == []
    assert dns.asked["a.test.", "TXT"] == 2


def test_that_there_is_nothing_is_remembered_for_a_minute(dns: DnsServer) -> None:
    clock = Clock()
    resolver = Resolver(("127.0.0.1", dns.port), clock=clock)
    assert Lookups(resolver).texts("b.test") == []
    dns.txt("b.test", "there now")
    assert Lookups(resolver).texts("b.test") == []
    clock.now += 61
    assert Lookups(resolver).texts("b.test") == [b"there now"]


def test_a_failure_is_not_remembered(dns: DnsServer, resolver: Resolver) -> None:
    dns.txt("c.test", "x")
    dns.trouble["c.test."] = "servfail"
    with pytest.raises(TryAgain):
        Lookups(resolver).texts("c.test")
    dns.trouble.clear()
    assert Lookups(resolver).texts("c.test") == [b"x"]


def test_a_record_too_long_for_udp_comes_over_tcp(dns: DnsServer, resolver: Resolver) -> None:
    dns.txt("long.test", "k" * 3000)
    dns.trouble["long.test."] = "truncated"
    assert Lookups(resolver).texts("long.test") == [b"k" * 3000]


def test_an_alias_is_followed(dns: DnsServer, resolver: Resolver) -> None:
    dns.add("alias.test", "CNAME", "real.test.")
    dns.txt("real.test", "found")
    assert Lookups(resolver).texts("alias.test") == [b"found"]


@pytest.mark.parametrize("name", ["", ".", "a..b", "x" * 64 + ".test", "a." * 150, "\udcff.test", "*.test", "a b.test"])
def test_no_name_makes_it_fail(resolver: Resolver, name: str) -> None:
    assert Lookups(resolver).texts(name) == []


def test_the_time_of_a_mail_is_bounded(dns: DnsServer, resolver: Resolver) -> None:
    dns.trouble[""] = "silent"
    lookups = Lookups(resolver, seconds=1.5)
    began = time.monotonic()
    for name in ("a.test", "b.test", "c.test", "d.test"):
        with pytest.raises(TryAgain):
            lookups.texts(name)
    assert time.monotonic() - began < 4


def test_the_number_of_lookups_of_a_mail_is_bounded(resolver: Resolver) -> None:
    lookups = Lookups(resolver, left=2)
    lookups.texts("a.test")
    lookups.texts("b.test")
    with pytest.raises(TooManyLookups):
        lookups.texts("c.test")


def test_nobody_listens(dns: DnsServer) -> None:
    with DnsServer() as gone:
        port = gone.port
    with pytest.raises(TryAgain):
        Lookups(Resolver(("127.0.0.1", port), seconds=0.5)).texts("a.test")
