"""What a terminal showed last, kept as text for people; and what was open in it and cannot be kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandbox_runner.guest.scrollback import NOT_KEPT, as_shown, without_secrets


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain\ttab", ["plain    tab"]),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07after", ["red after"]),
        ("\x1b]52;c;ZXZpbA==\x1b\\clip\x1bP1$r\x1b\\board\x1b7\x1b(B", ["clipboard"]),
        ("10%\r50%\r100%\r\ndone", ["100%", "done"]),
        ("abx\x08c", ["abc"]),
        ("a\x00b\x9b31mc\x85", ["ab31mc"]),
        ("\u202eevil\u2066\u200f", ["evil"]),
        ("unfinished \x1b[", ["unfinished "]),
        ("x" * 9000, ["x" * 400]),
    ],
)
def test_nothing_in_it_moves_a_cursor(printed: str, shown: list[str]) -> None:
    assert as_shown(printed) == shown


def test_secrets_are_withheld_by_shape_by_name_and_by_value() -> None:
    key = ["-----BEGIN OPENSSH PRIVATE KEY-----", "b3BlbnNzaC1rZXktdjEAAAAA", "-----END OPENSSH PRIVATE KEY-----"]
    lines = ["a", *key, "b", "ghp_0123456789abcdefghijABCDEFGHIJ012345", "c", "it is hunter22!", "API_KEY=x", "d"]
    assert without_secrets(lines, ["hunter22", "d"]) == ["a", NOT_KEPT, "b", NOT_KEPT, "c", NOT_KEPT, "d"]


async def test_the_last_lines_of_each_terminal_come_back(house: Any, guest: Any) -> None:
    await guest.run("seq 1000; printf '\\033[31mred\\033[0m'")
    await guest.run("echo $((6*7))\ntrue", terminal="second")
    await guest.kill()
    woken = await house.wake()
    main, second = woken.restored.terminals["main"], woken.restored.terminals["second"]
    assert len(main) == 200
    assert main[-3:] == ("999", "1000", "red")
    assert second == ("$ echo $((6*7))", "> true", "42")
    # It goes on from there.
    await woken.run("echo more", terminal="second")
    assert house.state()["terminals"]["second"]["scrollback"] == [*second, "$ echo more", "more"]


async def test_what_set_x_shows_of_the_guest_is_not_on_the_screen(house: Any, guest: Any) -> None:
    await guest.run("set -x; echo hello")
    await guest.run("echo again")
    assert "__np" not in "\n".join(house.state()["terminals"]["main"]["scrollback"])


async def test_a_secret_on_the_screen_is_not_written(house: Any, guest: Any) -> None:
    result = await guest.run("export DB_PASSWORD=correct-horse")
    assert "not kept: what terminal main showed, in part" in result.notes
    await guest.run("echo it is $DB_PASSWORD; echo after")
    assert "correct-horse" not in house.state_path.read_text()
    assert house.state()["terminals"]["main"]["scrollback"][-1] == "after"
    # Told once.
    assert (await guest.run("echo it is $DB_PASSWORD")).notes == ()


@pytest.mark.slow
async def test_much_output_takes_little_of_the_file(house: Any, guest: Any) -> None:
    for number in range(14):
        await guest.run("head -c 3000000 /dev/urandom | base64 -w 350", terminal=f"t{number}")
    assert house.state_path.stat().st_size <= 256 << 10
    assert len(house.state()["terminals"]["t13"]["scrollback"]) > 10


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python3 -i </dev/tty", "python3 -i"),
        ("cat < /dev/tty", "cat"),
        ("python3 -c 'import tty, sys, time; tty.setraw(2); time.sleep(60)'", "python3 -c"),
    ],
)
async def test_an_interactive_program_is_named_and_not_started_again(
    house: Any, guest: Any, command: str, named: str
) -> None:
    result = await guest.run(command, timeout=1)
    assert result.status == "running"
    await guest.run("sleep 60 &")
    await guest.connection.shutdown(grace=0.3)
    woken = await house.wake()
    (note,) = [note for note in woken.restored.notes if "was open" in note]
    assert note.startswith(named)
    assert note.endswith("was open in terminal main; it could not be kept")
    assert [note for note in woken.restored.notes if "not restarted" in note] == [
        note for note in woken.restored.notes if "sleep 60" in note
    ]


async def test_one_that_is_in_the_foreground_at_the_end_is_named_too(house: Any, guest: Any) -> None:
    await guest.run("x=kept", terminal="repl")
    running = asyncio.create_task(guest.run("python3 -i </dev/tty", terminal="repl", timeout=60))
    while not guest.connection._listeners and not running.done():
        if "python3 -i" in await guest.output("pgrep -fa '^[^ ]*python3 -[i]' || true"):
            break
    await guest.connection.shutdown(grace=0.3)
    running.cancel()
    woken = await house.wake()
    assert "python3 -i was open in terminal repl; it could not be kept" in woken.restored.notes
    assert await woken.output("echo $x", terminal="repl") == "kept\n"
