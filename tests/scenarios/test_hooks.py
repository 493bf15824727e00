"""A hook in a whole house: another program's delivery is worked on and answered, once, through a crash."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from pathlib import Path

import httpx
import pytest

from nightporter.testing import House, wait_until
from tests.warm_house import WarmHouse

pytestmark = pytest.mark.slow

SECRET = "the secret of this hook"


def deliver(house: House, body: bytes, stamp: int) -> httpx.Response:
    signature = hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"x-nightporter-timestamp": str(stamp), "x-nightporter-signature": f"sha256={signature}"}
    return httpx.post(f"http://{house.addresses['http']}/hooks/ci", content=body, headers=headers)


def test_a_delivery_is_answered_once_also_when_it_comes_again_after_a_crash(tmp_path: Path) -> None:
    house = WarmHouse(tmp_path, hooks__ci__secret=SECRET, hooks__ci__template="$ echo $((6 * 7)) built").start()
    try:
        body, stamp = json.dumps({"status": "$(touch /workspace/pwned)"}).encode(), int(time.time())
        first = deliver(house, body, stamp)
        assert first.status_code == 202, first.text
        message = first.json()["message_id"]

        def replies() -> list[str]:
            said = [each for each in house.events() if each["kind"] == "reply.queued"]
            return [each["text"] for each in said if each["message"] == message]

        wait_until(replies, "the delivery is answered")
        house.kill_everything()
        house.start()
        assert deliver(house, body, stamp).json() == first.json()
        assert "no such file" in house.say("$ ls /workspace/pwned").lower()
        assert len(replies()) == 1
        assert "42 built" in replies()[0]
        assert deliver(house, body, stamp - 1000).status_code == 401
    finally:
        house.stop()
