"""SPF as proof: the connecting host speaks for the author's domain, by IPv4 and IPv6, for envelopes and HELO names."""

from __future__ import annotations

import pytest

from gateway.email.proof.lookups import TooManyLookups
from gateway.email.senders import TryAgain, Unproven
from nightporter.testing.dns import DnsServer
from nightporter.testing.mail import letter

from .conftest import OWN, Judge

MAIL = bytes(letter(to=OWN))


@pytest.fixture(autouse=True)
def records(dns: DnsServer) -> None:
    dns.txt("_dmarc.example.org", "v=DMARC1; p=none")
    dns.txt("example.org", "v=spf1 ip4:192.0.2.0/28 ip6:2001:db8:1::/48 a:out.example.org mx include:_spf.test ~all")
    dns.txt("_spf.test", "v=spf1 ip4:203.0.113.9 -all")
    dns.add("out.example.org", "A", "198.51.100.1")
    dns.add("out.example.org", "AAAA", "2001:db8:2::1")
    dns.add("example.org", "MX", "10 in.example.org.")
    dns.add("in.example.org", "A", "198.51.100.2")


@pytest.mark.parametrize(
    "peer",
    ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8:1::25", "198.51.100.1", "2001:db8:2::1", "198.51.100.2", "203.0.113.9"],
)
def test_a_host_of_the_domain_proves_its_people(judge: Judge, peer: str) -> None:
    assert judge(MAIL, peer, "ann@example.org") == "ann@example.org"


@pytest.mark.parametrize("peer", ["192.0.2.16", "2001:db8:3::1", "127.0.0.1", "::1", "", "unix", "203.0.113.10"])
def test_another_host_does_not(judge: Judge, peer: str) -> None:
    with pytest.raises(Unproven):
        judge(MAIL, peer, "ann@example.org")


def test_a_softfail_and_a_neutral_are_no_pass(dns: DnsServer, judge: Judge) -> None:
    for end in ("~all", "?all"):
        dns.remove("example.org", "TXT")
        dns.txt("example.org", f"v=spf1 {end}")
        with pytest.raises(Unproven):
            judge(MAIL, "192.0.2.1", "ann@example.org")


def test_a_null_sender_is_judged_by_its_helo(dns: DnsServer, judge: Judge) -> None:
    dns.txt("mta.example.org", "v=spf1 ip4:192.0.2.99 -all")
    assert judge(MAIL, "192.0.2.99", "", "mta.example.org") == "ann@example.org"
    with pytest.raises(Unproven):
        judge(MAIL, "192.0.2.98", "", "mta.example.org")
    with pytest.raises(Unproven):
        judge(MAIL, "192.0.2.99", "", "[192.0.2.99]")


def test_a_subdomain_in_the_envelope_is_aligned_unless_the_record_is_strict(dns: DnsServer, judge: Judge) -> None:
    dns.txt("bounce.example.org", "v=spf1 ip4:192.0.2.50 -all")
    assert judge(MAIL, "192.0.2.50", "b@bounce.example.org") == "ann@example.org"
    dns.txt("_dmarc.strict.test", "v=DMARC1; p=none; aspf=s")
    dns.txt("b.strict.test", "v=spf1 ip4:192.0.2.50 -all")
    with pytest.raises(Unproven):
        judge(bytes(letter(to=OWN, sender="a@strict.test")), "192.0.2.50", "b@b.strict.test")


def test_a_mail_in_blind_copy_is_taken_from_the_authors_own_host(judge: Judge) -> None:
    assert judge(bytes(letter(to="bob@example.net")), "192.0.2.1", "ann@example.org") == "ann@example.org"


def test_a_record_that_leads_in_circles_ends(dns: DnsServer, judge: Judge) -> None:
    dns.txt("_dmarc.loop.test", "v=DMARC1; p=none")
    dns.txt("loop.test", "v=spf1 include:loop.test redirect=loop.test")
    mail = bytes(letter(to=OWN, sender="a@loop.test"))
    with pytest.raises((Unproven, TooManyLookups)):
        judge(mail, "192.0.2.1", "a@loop.test")
    assert sum(dns.asked.values()) < 40


def test_a_record_of_many_hosts_is_not_followed_to_its_end(dns: DnsServer, judge: Judge) -> None:
    dns.txt("_dmarc.wide.test", "v=DMARC1; p=none")
    dns.txt("wide.test", "v=spf1 mx include:a.wide.test include:b.wide.test -all")
    for name in ("wide.test", "a.wide.test", "b.wide.test"):
        dns.txt(name, *(["v=spf1 mx mx:c.wide.test mx:d.wide.test -all"] if name != "wide.test" else []))
    for name in ("wide.test", "a.wide.test", "b.wide.test", "c.wide.test", "d.wide.test"):
        dns.add(name, "MX", *(f"{i} h{i}.{name}." for i in range(10)))
        for i in range(10):
            dns.add(f"h{i}.{name}", "A", f"203.0.113.{i + 20}")
    with pytest.raises((Unproven, TooManyLookups)):
        judge(bytes(letter(to=OWN, sender="a@wide.test")), "192.0.2.1", "a@wide.test")
    assert sum(dns.asked.values()) <= 45


def test_names_that_lead_nowhere_are_followed_twice_only(dns: DnsServer, judge: Judge) -> None:
    dns.txt("_dmarc.void.test", "v=DMARC1; p=none")
    dns.txt("void.test", "v=spf1 a:1.void.test a:2.void.test a:3.void.test a:4.void.test ip4:192.0.2.1 -all")
    with pytest.raises(Unproven):
        judge(bytes(letter(to=OWN, sender="a@void.test")), "192.0.2.1", "a@void.test")


@pytest.mark.parametrize("trouble", ["silent", "servfail"])
def test_no_answer_is_no_verdict(dns: DnsServer, judge: Judge, trouble: str) -> None:
    dns.trouble["example.org."] = trouble  # type: ignore[assignment]
    with pytest.raises(TryAgain):
        judge(MAIL, "192.0.2.1", "ann@example.org")


def test_two_records_are_none(dns: DnsServer, judge: Judge) -> None:
    dns.txt("example.org", "v=spf1 +all")
    with pytest.raises(Unproven):
        judge(MAIL, "192.0.2.1", "ann@example.org")
