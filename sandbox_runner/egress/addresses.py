"""Which addresses a sandbox may never reach, or only where a setting says so.

An IPv6 address that carries an IPv4 address (mapped, compatible, 6to4, Teredo, NAT64) is judged by that one too.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from sandbox_runner.egress.names import Address

# Services of cloud providers that hand out credentials to whoever asks from a machine.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192",
         "fd00:ec2::254", "fd20:ce::254"),
    )
)  # fmt: skip
_CGNAT = ipaddress.ip_network("100.64.0.0/10")
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.ip_network("::/96")
_SITE_LOCAL = ipaddress.ip_network("fec0::/10")


def refusal(address: Address, *, private_allowed: bool = False) -> str:
    """Why an address must not be connected to; empty: it may.

    ``private_allowed``: the settings let this host be private or on loopback. Metadata, link-local, multicast,
    reserved and unspecified addresses are refused even then.
    """
    for each in _meanings(address):
        if each in _METADATA:
            return "is the metadata service of a machine"
        if each.is_unspecified or each.is_multicast:
            return "is no address of a single host"
        if each.is_link_local or each in _SITE_LOCAL:
            return "is link-local"
        if isinstance(each, ipaddress.IPv4Address) and each.is_reserved:
            return "is a reserved address"
        if private_allowed and (each.is_private or each.is_loopback or each in _CGNAT):
            continue
        if each.is_loopback:
            return "is a loopback address"
        if each in _CGNAT:
            return "is a private address (carrier-grade NAT)"
        if each.is_private:
            return "is a private address"
        if each.is_reserved or not each.is_global:
            return "is a reserved address"
    return ""


def _meanings(address: Address) -> Iterator[Address]:
    """The address itself, and the IPv4 addresses that it stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    carried = list(_carried(address))
    # A mapped or translated address is reserved as such; what counts is where it leads.
    if not carried or address.sixtofour or address.teredo:
        yield address
    yield from carried


def _carried(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif address in _NAT64[0] or address in _NAT64[1] or (address in _COMPATIBLE and int(address) > 0xFFFF):
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
