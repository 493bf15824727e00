"""A DNS server for tests, on loopback over UDP and TCP: a few records, and the ways in which DNS fails."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter
from types import TracebackType
from typing import Literal

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

Trouble = Literal["silent", "servfail", "truncated"]


class DnsServer:
    """``with DnsServer() as server:`` answers at ``server.address`` (``host:port``) until the block ends."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.ttl = 60
        self.trouble: dict[str, Trouble] = {}
        """Names that are not answered as they should be; the empty name stands for all."""
        self.asked: Counter[tuple[str, str]] = Counter()
        """How often each (name, type) was asked for."""
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._threads: list[threading.Thread] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._udp.getsockname()[1])

    def add(self, name: str, kind: str, *values: str) -> None:
        """Add records in the form of a zone file, such as ``add("example.org", "MX", "10 mail.example.org.")``."""
        self.records.setdefault((_key(name), kind.upper()), []).extend(values)

    def txt(self, name: str, *texts: str) -> None:
        """Add TXT records, of any length."""
        for text in texts:
            pieces = [text[at : at + 255] for at in range(0, len(text), 255)] or [""]
            escaped = (piece.replace("\\", "\\\\").replace('"', '\\"') for piece in pieces)
            self.add(name, "TXT", " ".join(f'"{piece}"' for piece in escaped))

    def remove(self, name: str, kind: str) -> None:
        self.records.pop((_key(name), kind.upper()), None)

    def __enter__(self) -> DnsServer:
        for _ in range(20):
            self._udp.bind(("127.0.0.1", 0))
            try:
                self._tcp.bind(("127.0.0.1", self.port))
                break
            except OSError:  # someone else has that port for TCP
                self._udp.close()
                self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._tcp.listen()
        for serve in (self._serve_udp, self._serve_tcp):
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        port = self.port
        with contextlib.suppress(OSError):
            self._udp.sendto(b"", ("127.0.0.1", port))  # an empty datagram wakes the thread to end it
        with contextlib.suppress(OSError):
            self._tcp.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._udp.close()
        self._tcp.close()

    def _serve_udp(self) -> None:
        while True:
            data, peer = self._udp.recvfrom(65535)
            if not data:
                return
            answer = self._answer(data, udp=True)
            if answer is not None:
                self._udp.sendto(answer, peer)

    def _serve_tcp(self) -> None:
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError, struct.error):
                connection.settimeout(5)
                (length,) = struct.unpack("!H", _exactly(connection, 2))
                answer = self._answer(_exactly(connection, length), udp=False)
                if answer is not None:
                    connection.sendall(struct.pack("!H", len(answer)) + answer)

    def _answer(self, data: bytes, *, udp: bool) -> bytes | None:
        try:
            query = dns.message.from_wire(data)
        except dns.exception.DNSException:
            return None
        question = query.question[0]
        name, kind = _key(question.name.to_text()), dns.rdatatype.to_text(question.rdtype)
        self.asked[name, kind] += 1
        trouble = self.trouble.get(name, self.trouble.get(""))
        if trouble == "silent":
            return None
        response = dns.message.make_response(query, recursion_available=True)
        if trouble == "servfail":
            response.set_rcode(dns.rcode.SERVFAIL)
        elif trouble == "truncated" and udp:
            response.flags |= dns.flags.TC
        else:
            self._fill(response, name, kind)
        return response.to_wire(max_size=65535)

    def _fill(self, response: dns.message.Message, name: str, kind: str) -> None:
        for _ in range(8):
            target = self.records.get((name, "CNAME"))
            if target is None or kind == "CNAME":
                break
            response.answer.append(dns.rrset.from_text(name, self.ttl, "IN", "CNAME", *target))
            name = _key(target[0])
        values = self.records.get((name, kind))
        if values:
            response.answer.append(dns.rrset.from_text(name, self.ttl, "IN", kind, *values))
        elif not any(known == name or known.endswith(f".{name}") for known, _ in self.records):
            response.set_rcode(dns.rcode.NXDOMAIN)


def _key(name: str) -> str:
    return name.lower().rstrip(".") + "."


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise OSError("the client hung up")
        data += piece
    return data
