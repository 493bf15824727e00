"""Every trick with a request, tried by a program in a real sandbox through its relay and the real proxy: what the
program gets to read is a refusal, and what is outside sees nothing that was not allowed."""

from __future__ import annotations

import json
from pathlib import Path

from sandbox_runner.bubblewrap import BubblewrapBackend
from tests.sandbox_runner.egress.inside import inside
from tests.sandbox_runner.egress.servers import Certificates, Seen, plain, server
from tests.sandbox_runner.egress.yard import yard

PROGRAM = r"""
import json, socket, ssl, sys
PLAIN, SECURE, KEYED, BAIT = sys.argv[1:]
GOOD, TLS, API = "good.example:" + PLAIN, "tls.example:" + SECURE, "api.example:" + KEYED
DENIED = bytes((21, 3, 3, 0, 2, 2, 49))

def say(raw):
    with socket.create_connection(("127.0.0.1", 3128), 20) as proxy:
        proxy.sendall(raw.encode("latin-1"))
        proxy.shutdown(socket.SHUT_WR)
        data = b""
        while piece := proxy.recv(65536):
            data += piece
    return data.decode("latin-1")

def get(url, host=None, *headers):
    host = host or url.split("/")[2]
    return say("\r\n".join([f"GET {url} HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""]))

def tunnel(target, name, request="GET / HTTP/1.1\r\nHost: tls.example\r\nConnection: close\r\n\r\n"):
    proxy = socket.create_connection(("127.0.0.1", 3128), 20)
    proxy.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head and (piece := proxy.recv(65536)):
        head += piece
    if b" 200 " not in head.split(b"\r\n")[0]:
        return head.decode("latin-1") + proxy.recv(65536).decode("latin-1")
    context = ssl._create_unverified_context()
    try:
        with context.wrap_socket(proxy, server_hostname=name) as inside:
            inside.sendall(request.encode())
            data = b""
            while piece := inside.recv(65536):
                data += piece
        return data.decode("latin-1")
    except OSError as error:
        return "tls: " + str(error)

found = {"what is allowed": get(f"http://{GOOD}/fine"), "its tls": tunnel(TLS, "tls.example")}
for name, written in {
    "decimal": "2130706433", "hexadecimal": "0x7f000001", "octal": "017700000001", "dotted octal": "0177.0.0.1",
    "short": "127.1", "mapped": "[::ffff:127.0.0.1]", "mapped in hex": "[::ffff:7f00:1]", "six": "[::1]",
    "six with a zone": "[fe80::1%25lo]", "nat64": "[64:ff9b::7f00:1]", "6to4": "[2002:7f00:1::]", "zero": "0.0.0.0",
    "zero alone": "0", "full width": "\uff11\uff12\uff17.0.0.1", "circled": "\u2460\u2461\u2466.0.0.1",
    "a dot of another script": "127\u30020\u30020\u30021", "localhost": "localhost", "with a dot": "127.0.0.1.",
    "metadata": "169.254.169.254", "metadata in six": "[fd00:ec2::254]", "metadata in decimal": "2852039166",
    "metadata of gce": "metadata.google.internal",
}.items():
    found["address, " + name] = get(f"http://{written}:{BAIT}/".encode().decode("latin-1"))
    found["tunnel, " + name] = tunnel(f"{written}:{BAIT}".encode().decode("latin-1"), "tls.example")
for port in ("25", "465", "22", "6379", "5432", "0", "65536", "-1"):
    found["port " + port] = tunnel("good.example:" + port, "good.example")
    found["port of any host, " + port] = tunnel("open.example:" + port, "open.example")
found["another server name"] = tunnel(TLS, "evil.example")
found["no server name"] = tunnel(TLS, None)
found["an address for a server name"] = tunnel(TLS, "127.0.0.1")
found["another server name where there is a key"] = tunnel(API, "evil.example")
for host in ("evil.example", "tls.example", "api.example.evil", "api.example:1", "", "127.0.0.1"):
    found["another host where there is a key: " + host] = tunnel(
        API, "api.example", f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
found["a whole address where there is a key"] = tunnel(
    API, "api.example", "GET http://evil.example/ HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n")
found["another host"] = get(f"http://{GOOD}/x", "evil.example")
found["two hosts"] = get(f"http://{GOOD}/x", None, "Host: evil.example")
found["host, folded"] = get(f"http://{GOOD}/x", None, "X: 1", " Host: evil.example")
found["host with a space"] = get(f"http://{GOOD}/x", None, "Host : evil.example")
found["connect to another than its host"] = say(
    f"CONNECT {TLS} HTTP/1.1\r\nHost: evil.example:443\r\n\r\n")
smuggled = f"GET http://evil.example/smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
post = f"POST http://{GOOD}/x HTTP/1.1\r\nHost: {GOOD}\r\n"
found["two lengths"] = say(post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled)
found["chunked, spelled otherwise"] = say(post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + smuggled)
found["a chunk too long"] = say(post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + smuggled)
found["a bare line feed"] = say(f"GET http://{GOOD}/x HTTP/1.1\nHost: {GOOD}\n\n")
found["a head without end"] = get(f"http://{GOOD}/x", None, "X: " + "a" * (1 << 18))
found["headers without end"] = get(f"http://{GOOD}/x", None, *[f"X{n}: a" for n in range(20000)])
found["a target without end"] = get(f"http://{GOOD}/" + "a" * (1 << 18))
found["rebinding"] = [get(f"http://two.example:{PLAIN}/fine") for _ in range(2)][1]
UPGRADE = ["Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
found["a websocket"] = get(f"http://{GOOD}/ws", None, *UPGRADE)
found["a server that switches unasked"] = get(f"http://{GOOD}/switch")
found["h2c"] = say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
print(json.dumps(found))
"""
ALLOWED = {"what is allowed", "its tls"}
SEEN_PATHS = {"/", "/fine", "/ws", "/switch", "/x"}
"""``/x``: of a request whose body turned out to be none; it ends there."""
REFUSALS = ("400", "403", "414", "421", "431", "501", "502", "505")
KEY = "a-key-that-stays-out"


def answering(seen: Seen) -> bytes:
    if "/switch" in seen.first or "upgrade" in seen.headers:
        return b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nraw bytes"
    return plain(b"from outside")


async def test_every_trick_with_a_request(tmp_path: Path, sqlite_url: str, backend: BubblewrapBackend) -> None:
    certificates = Certificates(tmp_path)
    tls = certificates.context("tls.example", "api.example", "evil.example")
    entry = {"value": f"Bearer {KEY}"}
    async with (
        server(answering) as outside,
        server(plain(b"from tls"), tls=tls) as secure,
        server(plain(b"from api"), tls=tls) as keyed,
        server(plain(b"never")) as bait,
        yard(
            tmp_path, sqlite_url, credentials=[{**entry, "host": f"api.example:{keyed.port}"}],
            allow=[f"good.example:{outside.port}", f"tls.example:{secure.port}", f"two.example:{outside.port}",
                   "open.example"],
            allow_private=["good.example", "tls.example", "two.example", "api.example", "open.example"],
        ) as made,
        inside(made, backend, tmp_path / "volume") as its,
    ):  # fmt: skip
        for name in ("good.example", "tls.example", "api.example", "open.example"):
            made.names[name] = [["127.0.0.1"]]
        made.names["two.example"] = [["127.0.0.1"], ["169.254.169.254"]]
        (its.workspace / "tricks.py").write_text(PROGRAM)
        said = await its.run(f"python3 tricks.py {outside.port} {secure.port} {keyed.port} {bait.port}", 120)
        found: dict[str, str] = json.loads(said.output)
        assert "from outside" in found.pop("what is allowed")
        assert "from tls" in found.pop("its tls")
        # Asked for as a plain request, of which only the answer's body comes back.
        assert "from outside" in found.pop("a websocket")
        for trick, answer in found.items():
            for leaked in ("from outside", "from tls", "from api", "never", "raw bytes", " 200 ", " 101 "):
                assert leaked not in answer, (trick, answer)
            first = answer.split("\r\n")[0]
            refused = not answer or first.startswith("tls: ") or (" " in first and first.split(" ")[1] in REFUSALS)
            assert refused, (trick, answer)
        assert bait.connections == 0
        assert {seen.first.split(" ")[1] for seen in (*outside.seen, *secure.seen, *keyed.seen)} <= SEEN_PATHS
        assert all(
            seen.headers.get("host", "").startswith(("good.", "two.", "tls.")) for seen in outside.seen + secure.seen
        )
        assert keyed.seen == []
        assert not any(b"smuggled" in seen.head + seen.body for seen in outside.seen)
        assert {seen.first.split(" ")[0] for seen in outside.seen if "/x" in seen.first} <= {"POST"}
        assert not any("upgrade" in seen.headers for seen in outside.seen)
        assert KEY not in said.output
        assert set(made.lookups) <= {"good.example", "tls.example", "two.example", "api.example", "open.example"}
