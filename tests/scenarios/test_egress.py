"""What leaves a sandbox: nothing unasked, and nothing unseen."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from nightporter.testing import House
from nightporter.testing.house import wait_until

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]


@dataclass
class Outside:
    port: int
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)


@pytest.fixture
def outside() -> Iterator[Outside]:
    """A web server of this machine."""
    found = Outside(0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            found.seen.append((self.command, self.path, body))
            found.authorizations += self.headers.get_all("authorization") or []
            said = b"from outside\n"
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    thread.join()


def said(house: House, text: str) -> list[str]:
    return [reply["text"] for reply in house.answer(house.post(text))["replies"]]


def ledger(house: House) -> list[dict[str, object]]:
    done = house.run("journal", "egress", "owner", "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_allowed_host_is_reached_and_seen(make_house: MakeHouse, outside: Outside) -> None:
    house = make_house(egress__allow=f"127.0.0.1:{outside.port}", egress__allow_private="127.0.0.1")
    assert "from outside" in house.say(f"$ curl -sS -d secret=1 http://127.0.0.1:{outside.port}/path?x=1")
    assert outside.seen == [("POST", "/path?x=1", b"secret=1")]
    (effect,) = ledger(house)
    assert (effect["method"], effect["status"], effect["outcome"]) == ("POST", "settled", 200)
    assert (effect["bytes_out"], effect["bytes_in"]) == (8, 13)
    assert effect["turn"] is not None
    kinds = [event["kind"] for event in house.events() if event["kind"].startswith("effect.")]
    assert kinds == ["effect.intended", "effect.settled"]
    assert "POST 127.0.0.1" in said(house, "/egress")[0]


def test_any_other_host_is_refused_until_the_person_allows_it(make_house: MakeHouse, outside: Outside) -> None:
    house = make_house(egress__allow_private="localhost")
    command = f"$ curl -sS --noproxy '' http://localhost:{outside.port}/"
    refused = "\n".join(said(house, command))
    assert "host_not_allowed" in refused
    assert f"Egress refused localhost:{outside.port}" in refused
    assert outside.seen == []
    (waiting,) = said(house, "/actions")
    code = waiting.split("`")[1]
    again = "\n".join(said(house, command))
    assert code in again, "the same question, not another"
    assert "May I" not in again
    assert f"may reach localhost:{outside.port} from now on" in said(house, f"/approve {code}")[0]
    assert "from outside" in house.say(command)
    assert said(house, f"/egress revoke localhost:{outside.port}")[0].startswith("Taken back")
    assert "host_not_allowed" in "\n".join(said(house, command))


def test_an_undo_takes_files_back_and_lists_what_went_out_since(make_house: MakeHouse, outside: Outside) -> None:
    address = f"127.0.0.1:{outside.port}"
    house = make_house(egress__allow=address, egress__allow_private="127.0.0.1")
    house.say(f"$ curl -sS -d early=1 http://{address}/before; echo one > file")
    house.say(f"$ curl -sS -d order=1 http://{address}/orders; echo two > file")
    undone = "\n".join(said(house, "/undo"))
    assert "This went out since then, and stays done" in undone
    assert undone.count("POST 127.0.0.1") == 1, "what went out before is no part of it"
    assert "(settled)" in undone
    assert "one" in house.say("$ cat file")
    assert [path for _, path, _ in outside.seen] == ["/before", "/orders"], "the world is as it was"
    assert len(ledger(house)) == 2


def test_an_answer_that_was_used_does_not_come_back_with_an_undo(make_house: MakeHouse, outside: Outside) -> None:
    house = make_house(egress__allow_private="localhost")
    command = f"$ curl -sS --noproxy '' http://localhost:{outside.port}/; echo two > file"
    house.say("$ echo one > file")
    said(house, command)
    (waiting,) = said(house, "/actions")
    code = waiting.split("`")[1]
    said(house, f"/approve {code}")
    assert "from outside" in house.say(command)
    said(house, f"/egress revoke localhost:{outside.port}")
    undone = "\n".join(said(house, "/undo @1"))
    assert "GET localhost" in undone
    assert "one" in house.say("$ cat file")
    assert "Already approved and used" in said(house, f"/approve {code}")[0]
    assert "host_not_allowed" in "\n".join(said(house, command))
    assert len(outside.seen) == 1


def test_a_proxy_that_died_is_followed_by_another_for_sandboxes_that_are_awake(
    make_house: MakeHouse, outside: Outside
) -> None:
    house = make_house(egress__allow=f"127.0.0.1:{outside.port}", egress__allow_private="127.0.0.1")
    command = f"$ curl -sS http://127.0.0.1:{outside.port}/"
    assert "from outside" in house.say(command)
    house.kill("egress")
    assert "from outside" in house.say(command)
    woken = [event for event in house.events() if event["kind"] == "sandbox.woken"]
    assert len(woken) == 1, "it is the same sandbox"


def test_a_request_under_way_when_the_proxy_dies_is_uncertain_and_told(make_house: MakeHouse, outside: Outside) -> None:
    hold = threading.Event()
    arrived = threading.Event()

    class Slow(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.set()
            hold.wait(30)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_port
    try:
        house = make_house(egress__allow=f"127.0.0.1:{port}", egress__allow_private="127.0.0.1")
        message = house.post(f"$ curl -sS -d order=1 http://127.0.0.1:{port}/; sleep 2")
        assert arrived.wait(30)
        house.kill("egress")
        hold.set()
        reply = house.answer(message)["replies"][0]["text"]
        assert f"nobody saw how POST to 127.0.0.1:{port} ended" in reply
        wait_until(lambda: [row["status"] for row in ledger(house)] == ["uncertain"], "the ledger says so")
    finally:
        hold.set()
        server.shutdown()


def test_a_credential_is_used_and_never_seen(make_house: MakeHouse, outside: Outside) -> None:
    """Over plain http only to this machine; in TLS to any host, which the attacks show."""
    entry = {"host": f"127.0.0.1:{outside.port}", "value": "Bearer of-the-house", "env": "API_TOKEN"}
    house = make_house(
        egress__credentials=json.dumps([entry]),
        egress__allow=f"127.0.0.1:{outside.port}",
        egress__allow_private="127.0.0.1",
    )
    reply = house.say(f'$ curl -sS -H "Authorization: $API_TOKEN" http://127.0.0.1:{outside.port}/; env')
    assert "from outside" in reply
    assert "SSL_CERT_FILE=/run/nightporter/ca-bundle.crt" in reply
    assert "of-the-house" not in reply
    assert outside.authorizations == ["Bearer of-the-house"]
    key = house.home / "egress" / "ca.key"
    assert key.stat().st_mode & 0o777 == 0o600
    found = house.run("doctor").stdout
    assert f"127.0.0.1:{outside.port} (with a credential)" in found
    assert "of-the-house" not in found
