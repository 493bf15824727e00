"""A process state that was cut short, had a bit turned, was swapped for an older one or swollen while nobody looked.

It is told to its person, and everything is as the last good one has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nightporter.testing import House

pytestmark = pytest.mark.slow

MakeHouse = Callable[..., House]
Damage = Callable[[bytes, bytes], bytes]


def with_a_bit_turned(at: float) -> Damage:
    def damage(older: bytes, newer: bytes) -> bytes:
        place = int(len(newer) * at)
        return newer[:place] + bytes([newer[place] ^ 4]) + newer[place + 1 :]

    return damage


def padded(older: bytes, newer: bytes) -> bytes:
    """Whole JSON, sealed as it was, with a part of 300 KiB that is nobody's."""
    state = json.loads(newer)
    state["terminals"]["main"]["scrollback"] = ["x" * 300 * 1024]
    return json.dumps(state).encode()


DAMAGES: dict[str, Damage] = {
    "cut": lambda older, newer: newer[: len(newer) // 2],
    "cut-at-the-end": lambda older, newer: newer[:-3],
    "empty": lambda older, newer: b"",
    "bit-early": with_a_bit_turned(0.05),
    "bit-in-the-middle": with_a_bit_turned(0.5),
    "bit-late": with_a_bit_turned(0.95),
    "older": lambda older, newer: older,
    "swollen": padded,
    "zeroes": lambda older, newer: bytes(len(newer)),
}


def test_it_is_refused_told_and_the_last_good_one_used(make_house: MakeHouse) -> None:
    house = make_house(sandbox__idle_seconds="0.5")
    kept: dict[str, tuple[Path, bytes]] = {}
    for user in DAMAGES:
        house.say("$ export WHO=first; cd /usr; mine() { echo fn; }", user=user)
        (owner,) = [
            json.loads(line) for line in house.run("users", "show", f"local:{user}", "--json").stdout.splitlines()
        ]
        kept[user] = (house.home / "volumes" / owner["id"] / "live/home/.nightporter/session_state.json", b"")
    house.sleep_sandboxes()
    for user, (path, _) in kept.items():
        kept[user] = (path, path.read_bytes())
        house.say("$ export WHO=second; cd /etc", user=user)
    house.sleep_sandboxes()
    for user, (path, older) in kept.items():
        path.write_bytes(DAMAGES[user](older, path.read_bytes()))
    for user in DAMAGES:
        said = house.say("$ echo $WHO $PWD; mine", user=user)
        assert "second /etc\nfn" in said, (user, said)
        assert "session_state.json was not used" in said, (user, said)
        assert "as generation 2 has" in said, (user, said)
    house.sleep_sandboxes()
    for user in DAMAGES:
        said = house.say("$ echo $WHO", user=user)
        assert "second" in said
        assert "not used" not in said, "what is right again is not told again"
        shown = json.loads(house.run("workspace", "state", f"local:{user}", "--json").stdout)
        assert shown["terminals"]["main"]["variables"]["WHO"]["value"] == "second"
