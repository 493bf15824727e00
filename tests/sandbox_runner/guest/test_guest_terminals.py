"""Commands in a terminal: what they print, how they end, and what they cannot break."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest


async def test_a_command_gives_its_output_and_exit_code_as_printed(guest: Any, house: Any) -> None:
    result = await guest.run("printf 'one\\ntwo'; exit_with() { return 7; }; exit_with")
    assert (result.status, result.exit_code, result.output) == ("exited", 7, "one\ntwo")
    assert result.cwd == str(house.workspace)
    assert result.state_digest == hashlib.sha256(house.state_path.read_bytes()).hexdigest()
    assert house.state_path.stat().st_mode & 0o777 == 0o600


async def test_the_guest_shows_its_title(guest: Any) -> None:
    assert Path(f"/proc/{guest.process.pid}/cmdline").read_bytes().startswith(b"nightporter: guest\0")


async def test_the_control_socket_is_not_inherited_by_commands(guest: Any) -> None:
    assert "socket" not in await guest.output("ls -l /proc/self/fd /proc/$$/fd")


async def test_a_terminal_keeps_its_shell(guest: Any) -> None:
    first = await guest.output("cd /usr; x=5; echo $$")
    assert await guest.output("echo $$") == first
    assert await guest.output("echo $x $PWD") == "5 /usr\n"


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("cat <<'END'\nline $x\nEND", 0, "line $x\n"),
        ("for i in 1 2; do\n  echo $i\ndone", 0, "1\n2\n"),
        ("return 4", 4, ""),
        ("(exit 9)", 9, ""),
        ("set -u; echo $not_there; echo never", 1, "bash: not_there: unbound variable\n"),
        ("echo ${x:?is missing}", 1, "bash: x: is missing\n"),
        ("no_such_program", 127, "bash: no_such_program: command not found\n"),
        ('read answer; echo "$? [$answer]"; cat', 0, "1 []\n"),
        ("# only a comment", 0, ""),
        ("trap 'echo trapped' ERR; false; trap - ERR", 0, "trapped\n"),
        ("kill -INT $$; echo never", 130, "\n"),
    ],
)
async def test_every_kind_of_command_text(guest: Any, command: str, code: int, output: str) -> None:
    result = await guest.run(command)
    assert (result.status, result.exit_code, result.output) == ("exited", code, output)
    assert await guest.output("echo still here") == "still here\n"


async def test_a_syntax_error_is_reported(guest: Any) -> None:
    result = await guest.run("if ; then")
    assert result.exit_code == 2
    assert "syntax error" in result.output


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 3", 3), ("exec sh -c 'exit 5'", 5), ("set -e; false; echo never", 1), ("kill -9 $$", 137)],
)
async def test_a_shell_that_ends_is_replaced_from_the_last_state(guest: Any, command: str, code: int) -> None:
    await guest.run("cd /usr; kept=yes")
    result = await guest.run(f"echo before; {command}")
    assert (result.status, result.exit_code, result.output) == ("exited", code, "before\n")
    assert any("the shell itself ended" in note for note in result.notes)
    assert await guest.output("echo $kept $PWD") == "yes /usr\n"


@pytest.mark.parametrize(
    "mess",
    [
        "PS1='prompt$ '; PROMPT_COMMAND='echo prompted'",
        "trap 'true' DEBUG; set -T",
        "exec 3>&1 >/dev/null",
        "IFS=0123456789abcdef; set -f; set -u",
        "alias printf=false echo=false set=false; shopt -s expand_aliases extglob nullglob; set -o noclobber -o posix",
        "stty echo onlcr; stty -icanon",
        "set -e",
        "readonly readonly_one=1; declare -i number=4; declare -n reference=number",
        "umask 777",
    ],
)
async def test_what_a_command_does_to_its_shell_does_not_confuse_the_next(guest: Any, mess: str) -> None:
    assert (await guest.run(mess)).status == "exited"
    for _ in range(2):
        result = await guest.run("\\printf 'a\\nb' >/dev/tty", timeout=5)
        assert (result.status, result.exit_code, result.output) == ("exited", 0, "a\nb")


async def test_tracing_shows_the_command_and_not_the_guest(guest: Any) -> None:
    await guest.run("set -x")
    result = await guest.run("echo hi")
    assert result.output == "++ echo hi\nhi\n"


async def test_output_that_looks_like_an_end_is_only_output(guest: Any) -> None:
    text = await guest.output("printf '\\036np:end:0123\\036'; printf '\\036np:begin:'; printf '\\036'")
    assert text == "\x1enp:end:0123\x1e\x1enp:begin:\x1e"


async def test_binary_output_is_text_with_replacements(guest: Any) -> None:
    assert await guest.output("printf 'a\\000b\\377c\\303\\251\\r\\n'") == "a\ufffdb\ufffdcé\r\n"


async def test_the_temporary_folder_may_be_emptied(guest: Any, house: Any) -> None:
    result = await guest.run(f"find {house.temporary} -mindepth 1 -delete; echo done", timeout=10)
    assert result.status == "exited"
    assert result.output.startswith("done\n")
    assert await guest.output("echo again") == "again\n"


@pytest.mark.slow
async def test_a_100_mb_print_is_bounded(guest: Any) -> None:
    result = await guest.run("head -c 100000000 /dev/zero | tr '\\0' x; echo the end", output_bytes=100_000, timeout=60)
    assert result.status == "exited"
    assert result.omitted_bytes == 100_000_000 + len("the end\n") - 100_000
    assert len(result.output) < 101_000
    assert result.output.endswith("the end\n")
    status = Path(f"/proc/{guest.process.pid}/status").read_text()
    peak_kb = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    assert peak_kb < 64 << 10


async def test_the_worst_binary_output_fits_a_frame(guest: Any) -> None:
    result = await guest.run("head -c 3000000 /dev/zero | tr '\\0' '\\1'", timeout=60)
    assert result.status == "exited"
    assert result.omitted_bytes > 0


async def test_output_is_shown_while_the_command_runs(guest: Any) -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()
    go = asyncio.create_task(
        guest.run("echo first; while [ ! -e go ]; do sleep 0.05; done", on_output=shown.put_nowait)
    )
    assert await asyncio.wait_for(shown.get(), 10) == "first\n"
    await guest.run("touch go", terminal="other")
    assert (await go).output == "first\n"


async def test_terminals_run_at_once_and_apart(guest: Any) -> None:
    waiting = asyncio.create_task(guest.run("while [ ! -e go ]; do sleep 0.05; done; cd /usr; pwd", terminal="one"))
    assert await guest.output("touch go; pwd; x=1", terminal="two") != "/usr\n"
    assert (await waiting).output == "/usr\n"
    assert await guest.output("echo [$x]", terminal="one") == "[]\n"


async def test_commands_of_one_terminal_wait_for_each_other(guest: Any) -> None:
    results = await asyncio.gather(*(guest.run(f"echo {number}") for number in range(5)))
    assert [result.output for result in results] == [f"{number}\n" for number in range(5)]


async def test_a_call_runs_once_however_often_it_is_asked(guest: Any) -> None:
    calls = [guest.run("echo once >> count; sleep 0.2; cat count", call_id="same") for _ in range(3)]
    first, *others = await asyncio.gather(*calls)
    assert all(other == first for other in others)
    assert await guest.connection.result("same") == first
    assert first.output == "once\n"
    assert await guest.connection.result("never asked") is None


@pytest.mark.parametrize(
    "command", ["sleep 60; echo never", "while :; do :; done; echo never", "for i in 1 2; do sleep 60; done"]
)
async def test_an_interrupt_ends_the_whole_command(guest: Any, command: str) -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()
    call = asyncio.create_task(guest.run(f"mark=kept; echo go; {command}", on_output=shown.put_nowait))
    await asyncio.wait_for(shown.get(), 10)
    assert await guest.connection.interrupt()
    result = await asyncio.wait_for(call, 10)
    assert result.status == "interrupted"
    assert "never" not in result.output
    assert await guest.output("echo $mark") == "kept\n"
    assert await guest.connection.interrupt() is False


async def test_what_ignores_an_interrupt_is_killed(guest: Any) -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()
    call = asyncio.create_task(guest.run("sh -c \"trap '' INT; echo go; sleep 60\"", on_output=shown.put_nowait))
    await asyncio.wait_for(shown.get(), 10)
    await guest.connection.interrupt()
    assert (await asyncio.wait_for(call, 10)).status == "interrupted"
    assert await guest.output("echo fine") == "fine\n"


async def test_typed_lines_stay_out_of_the_history(guest: Any) -> None:
    await guest.run("echo 'two\nlines'")
    history = await guest.output("history")
    assert history == "    1  echo 'two\nlines'\n    2  history\n"


PROMPTS = [
    "PROMPT_COMMAND='sleep 60'",
    "PROMPT_COMMAND=('sleep 60' [3]='sleep 60')",
    "PS1='$(sleep 60)'",
    "PS0='$(sleep 60)'",
    "set -eu; export PS1='$(sleep 60)'",
]


@pytest.mark.parametrize("setting", PROMPTS)
async def test_prompts_are_kept_and_never_shown(house: Any, setting: str) -> None:
    guest = await house.wake()
    assert (await guest.run(f"{setting}; echo set", timeout=5)).output == "set\n"
    look = "declare -p PROMPT_COMMAND PS0 PS1 2>/dev/null || true"
    before = (await guest.run(look, timeout=5)).output
    assert "sleep 60" in before
    await guest.kill()
    woken = await house.wake()
    assert (await woken.run(look, timeout=5)).output == before


async def test_a_terminal_that_hangs_before_each_command_is_freed_of_what_holds_it(house: Any) -> None:
    guest = await house.wake()
    await guest.run("x=5; readonly PROMPT_COMMAND='sleep 60'", timeout=5)
    hung = await guest.run("echo never", timeout=0.3)
    assert (hung.status, hung.output) == ("interrupted", "")
    assert "was not begun" in " ".join(hung.notes)
    assert await guest.output("echo $x") == "5\n"
    await guest.kill()
    woken = await house.wake()
    assert await woken.output("echo $x") == "5\n"


async def test_where_the_terminal_s_output_goes_is_told_by_name_and_once(house: Any, guest: Any) -> None:
    log = house.workspace / "log"
    assert (await guest.run(f"exec 2>{log}")).notes == (
        f"the standard error of this terminal goes to {log} from now on",
    )
    assert (await guest.run("echo x >&2")).notes == ()
    assert (await guest.run("exec 2>/dev/null")).notes == (
        "the standard error of this terminal goes to /dev/null from now on",
    )
    assert (await guest.run("exec 2>/dev/tty")).notes == ()
    assert (await guest.run("exec 1>&-")).notes == (
        "the standard output of this terminal was closed; it is opened again",
    )


async def test_the_guest_s_own_redirections_are_nobody_s_business(guest: Any) -> None:
    """They last for a moment after a command was reported, and were once taken for the command's."""
    for _ in range(150):
        assert (await guest.run("f() { :; }; true")).notes == ()
