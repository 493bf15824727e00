"""Process state: what comes back after the guest was killed, and what is never written down."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

SETUP = r"""
cd "$HOME/a b"; umask 027
export EXPORTED=$'line1\nline2 "q" $x `y` \\ \'z\'' UNICODE=é漢 EMPTY=
plain='not exported'; integer_text=007; bytes=$'\377\001x'
declare -a indexed=(1 "two 2" [5]=$'t\tx\n'); declare -A assoc=([k]='v 1' ['k 2 ]"']='$HOME' [é]=$'a\nb')
declare -i number=5; declare -r fixed='a; b'; declare -u upper=abc; target=t; declare -n ref=target; declare -x declared
declare -ar fixed_list=(a 'b c')
greet() { echo "hi $1"; cat <<END
  body $EXPORTED }
END
}; export -f greet
private_one() ( echo sub ); matcher() { [[ $1 == +(x) ]]; } 2>/dev/null
shopt -s globstar extglob; shopt -u sourcepath; set -o noclobber -o pipefail -u; set +o braceexpand
alias ll='ls -la "x y"' q="it's"; trap 'echo "bye $x"' USR1; trap '' USR2; unset LANG
pushd / >/dev/null; popd >/dev/null; ulimit -S -n 77
"""
LOOK = r"""
declare -p EXPORTED UNICODE EMPTY plain integer_text bytes indexed assoc number fixed upper target
declare -p ref declared fixed_list
declare -f; declare -Fx; alias; trap -p; umask; pwd; shopt -p; set +o; ulimit -S -n; echo "${LANG-unset}"
greet you; sh -c 'echo "$EXPORTED$UNICODE"'; bash -c 'greet inner'
"""


@pytest.fixture
async def prepared(house: Any) -> Any:
    (house.home / "a b").mkdir()
    guest = await house.wake()
    result = await guest.run(SETUP.replace("; declare -x declared", "") + "\nexport declared")
    assert result.exit_code == 0, result.output
    return guest


async def test_everything_a_shell_holds_survives_the_sandbox(house: Any, prepared: Any) -> None:
    before = await prepared.output(LOOK)
    await prepared.kill()
    woken = await house.wake()
    assert woken.restored.notes == ()
    assert await woken.output(LOOK) == before


async def test_nothing_is_written_when_nothing_changed(house: Any, prepared: Any) -> None:
    result = await prepared.run("true")
    before = house.state_path.stat()
    assert result.state_digest == hashlib.sha256(house.state_path.read_bytes()).hexdigest()
    assert (await prepared.connection.capture()).digest == result.state_digest
    assert house.state_path.stat().st_ino == before.st_ino


async def test_a_wake_reports_the_digest_it_came_from(house: Any, guest: Any) -> None:
    result = await guest.run("export a=1")
    await guest.kill()
    woken = await house.wake()
    assert woken.restored.digest == result.state_digest
    assert list(woken.restored.terminals) == ["main"]


async def test_terminals_come_back_apart_with_their_history(house: Any, guest: Any) -> None:
    await guest.run("x=1; cd /usr", terminal="one")
    await guest.run("x=2; cd /etc", terminal="two")
    await guest.kill()
    woken = await house.wake()
    assert (
        await woken.output("echo $x $PWD; history", terminal="one")
        == "1 /usr\n    1  x=1; cd /usr\n    2  echo $x $PWD; history\n"
    )
    assert await woken.output("echo $x $PWD", terminal="two") == "2 /etc\n"


@pytest.mark.parametrize("end", ["", "exit 3"])
async def test_history_is_as_long_after_the_second_wake_as_before_the_first(house: Any, guest: Any, end: str) -> None:
    """Also where the shell itself ended and another went on."""
    said = ["echo one", "echo 'two\nlines'", *([end] if end else []), "true", "history"]
    for command in said[:-1]:
        await guest.run(command)
    for _ in range(2):
        await guest.kill()
        guest = await house.wake()
        await guest.run("true")
    shown = await guest.output("history")
    assert shown == "".join(f"{number:5}  {command}\n" for number, command in enumerate(said, 1))


async def test_the_directory_stack_comes_back_whatever_the_names_hold(house: Any, guest: Any) -> None:
    look = "HOME=/nowhere; printf '[%s]' \"${DIRSTACK[@]}\""
    await guest.run("mkdir -p ~/$'a\nb' && cd ~/$'a\nb' && pushd -n $'/usr\n' && pushd -n '/x  y' && pushd /tmp")
    before = await guest.output(look)
    assert before == f"[/tmp][{house.home}/a\nb][/x  y][/usr\n]"
    await guest.kill()
    assert await (await house.wake()).output(look) == before


async def test_a_deleted_folder_falls_back_and_is_told(house: Any, guest: Any) -> None:
    await guest.run("mkdir gone; cd gone; x=1")
    await guest.kill()
    (house.workspace / "gone").rmdir()
    woken = await house.wake()
    assert any("gone" in note for note in woken.restored.notes)
    assert await woken.output("echo $x; pwd") == f"1\n{house.workspace}\n"


async def test_the_state_is_readable_and_ordered(house: Any, guest: Any) -> None:
    await guest.run("b=2; a=1")
    state = house.state()
    assert state["version"] == 2
    assert list(state["terminals"]["main"]["variables"]) == ["OLDPWD", "a", "b"]
    assert state["terminals"]["main"]["variables"]["a"] == {"flags": "", "value": "1"}


async def test_what_the_shell_was_told_of_programs_completions_and_builtins_comes_back(house: Any, guest: Any) -> None:
    told = "hash -p /bin/ls listing; complete -W $'a b\\n\\'c\\'' -o nospace -F _f one; enable -n kill; ls >/dev/null"
    look = "hash -t listing; listing -d /; complete -p; enable -n; type -t kill"
    await guest.run(told)
    before = await guest.output(look)
    assert before.splitlines()[:2] == ["/bin/ls", "/"]
    await guest.kill()
    woken = await house.wake()
    assert await woken.output(look) == before
    assert list(house.state()["terminals"]["main"]["hashed"]) == ["listing"], "what PATH finds is found again"


async def test_open_files_are_named_and_not_kept(house: Any, guest: Any) -> None:
    await guest.run("exec 3>written 4</etc/passwd {named}>more; exec 8< <(:); exec >out", terminal="other")
    await guest.kill()
    woken = await house.wake()
    told = "\n".join(woken.restored.notes)
    for what in ("3 (", "/written)", "4 (/etc/passwd)", "/more)", "8 (a pipe)", "1 (", "/out)"):
        assert what in told
    assert told.count("was open in terminal other; it could not be kept") == 5
    await woken.run("true", terminal="other")
    await woken.kill()
    assert (await house.wake()).restored.notes == ()


@pytest.mark.parametrize("taken", ["builtin", "printf declare", ". trap set history jobs complete"])
async def test_builtins_taken_away_do_not_make_a_terminal_mute(guest: Any, taken: str) -> None:
    result = await guest.run(f"enable -n {taken}; kept=yes")
    assert (result.status, result.exit_code) == ("exited", 0)
    assert await guest.output("echo $kept") == "yes\n"


BUSY = {
    "a loop": "end=$((SECONDS + 3)); while ((SECONDS < end)); do :; done",
    "a fifo that is opened": "mkfifo f; (setsid sh -c 'sleep 3; echo x >f' &) ; read -r x <f",
    "a descriptor": "mkfifo f; exec 5<>f; read -r -t 2.5 -u 5; exec 5>&-",
    "an input": "mkfifo f; exec 5<>f; read -r -t 2.5 <&5; exec 5>&-",
}


@pytest.mark.slow
@pytest.mark.parametrize("command", BUSY.values(), ids=BUSY)
async def test_a_shell_that_is_busy_itself_is_not_taken_for_mute(guest: Any, command: str) -> None:
    await guest.run("enable() { echo mine; }")
    result = await guest.run(f"cd /tmp; rm -f f; {command}; echo over")
    assert (result.output, result.notes) == ("over\n", ())
    assert await guest.output("enable") == "mine\n"


SECRETS = {
    "GITHUB_TOKEN": "anything",
    "DB_PASSWORD": "hunter2",
    "OPENAI_API_KEY": "x",
    "PGPASSWORD": "x",
    "innocent": "AKIAABCDEFGHIJKLMNOP",
    "classic": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "model": "sk-proj-abcdefghijklmnopqrstuvwxyz",
    "chat": "xoxb-123456789012-abcdefghijkl",
    "web": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nabc",
    "url": "postgresql://user:pa55@db/x",
}


async def test_secrets_are_withheld_and_named_once(house: Any, guest: Any) -> None:
    lines = [f"export {name}='{value}'" for name, value in SECRETS.items()]
    lines += [
        "list=(a ghp_0123456789abcdefghijABCDEFGHIJ012345)",
        "login() { curl -H 'Authorization: Bearer abcdef'; }",
        "alias go='deploy --password s3cret'",
        "KEYBOARD=us TOKENIZERS_PARALLELISM=false PRIMARY=1",
    ]
    result = await guest.run("\n".join(lines))
    for name in (*SECRETS, "list", "function login", "alias go", "a command in the history"):
        assert f"not kept: {name}" in result.notes
    text = house.state_path.read_text()
    for secret in (*SECRETS.values(), "Bearer", "s3cret"):
        assert secret in ("anything", "x") or secret.split("\n")[0] not in text
    assert {"KEYBOARD", "TOKENIZERS_PARALLELISM", "PRIMARY"} <= set(house.state()["terminals"]["main"]["variables"])
    assert (await guest.run("true")).notes == ()
    assert await guest.output("echo $DB_PASSWORD") == "hunter2\n"
    await guest.kill()
    woken = await house.wake()
    assert any("DB_PASSWORD was not kept" in note for note in woken.restored.notes)
    assert await woken.output("echo [$DB_PASSWORD]") == "[]\n"


async def test_a_secret_among_the_parameters_is_withheld(house: Any, guest: Any) -> None:
    result = await guest.run("set -- --password hunter2 ghp_abcdefghijklmnopqrstuvwxyz0123")
    assert "not kept: positional parameters" in result.notes
    assert "hunter2" not in house.state_path.read_text()
    assert "ghp_" not in house.state_path.read_text()
    await guest.run("set -- plain words")
    assert house.state()["terminals"]["main"]["positional"] == ["plain", "words"]


async def test_a_replaced_shell_still_has_its_secrets_in_a_living_sandbox(guest: Any) -> None:
    await guest.run("export API_KEY=abc")
    await guest.run("exit")
    assert await guest.output("echo $API_KEY") == "abc\n"


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[: len(data) // 2], "not whole JSON"),
        (lambda data: b"", "not whole JSON"),
        (lambda data: b"\xff\xfe" + data, "not whole JSON"),
        (lambda data: b"[" * 100_000, "not whole JSON"),
        (lambda data: b"[]", "not a JSON object"),
        (lambda data: data.replace(b'"version": 2', b'"version": 99'), "its version is '99'"),
    ],
)
async def test_a_damaged_state_is_not_used(house: Any, guest: Any, damage: Any, why: str) -> None:
    await guest.run("x=old; cd /usr")
    await guest.kill()
    house.state_path.write_bytes(damage(house.state_path.read_bytes()))
    woken = await house.wake()
    assert any(why in note for note in woken.restored.notes)
    assert await woken.output("echo [$x] $PWD") == f"[] {house.workspace}\n"


async def test_the_state_of_the_release_before_is_read(house: Any, guest: Any) -> None:
    await guest.run("x=old; cd /usr")
    await guest.kill()
    state = house.state()
    state["version"] = 1
    del state["seal"], state["ended"]
    house.state_path.write_text(json.dumps(state))
    woken = await house.wake()
    assert woken.restored.notes == ()
    assert await woken.output("echo $x $PWD") == "old /usr\n"
    assert house.state()["version"] == 2


async def test_a_file_that_something_else_wrote_is_written_anew(house: Any, guest: Any) -> None:
    await guest.run("x=1")
    house.state_path.write_text(house.state_path.read_text().replace('"1"', '"2"'))
    assert any("changed by something else" in note for note in (await guest.run("x=1")).notes)
    assert house.state()["terminals"]["main"]["variables"]["x"]["value"] == "1"
    await guest.run("x=1")
    assert not (await guest.run("x=1")).notes
    house.state_path.unlink()
    captured = await guest.connection.capture()
    assert any("changed by something else" in note for note in captured.notes)
    assert house.state()["terminals"]["main"]["variables"]["x"]["value"] == "1"


async def test_a_hostile_state_runs_nothing(house: Any, guest: Any) -> None:
    await guest.run("x=1")
    await guest.kill()
    state = house.state()
    evil = f"$(touch {house.home}/pwned)"
    run = f"touch {house.home}/pwned"
    main = state["terminals"]["main"]
    main["variables"] = {
        "fine": {"flags": "x", "value": evil},
        "integer": {"flags": "i", "value": f"a[{evil}]"},
        "reference": {"flags": "n", "value": f"a[{evil}]"},
        "list": {"flags": "a", "value": {evil: "1"}},
        "map": {"flags": "A", "value": {evil: evil, "'": "'"}},
        f"x; {run}": {"flags": "", "value": ""},
        "flags": {"flags": f"x {run};", "value": ""},
        "wrong": 5,
        "PATH": {"flags": "x", "value": 7},
        "BASH_ENV": {"flags": "x", "value": run},
    }
    main["functions"] = {
        "f": {"text": f"f () \n{{ \n    :\n}}; {run}", "exported": False},
        "g": {"text": run, "exported": False},
        f"h() {{ :; }}; {run}; x": {"text": "x () \n{ \n    :\n}", "exported": True},
        "builtin": {"text": f"builtin () \n{{ \n    {run}\n}}", "exported": False},
    }
    main["aliases"] = {f"a=1; {run}": "x", "ok": f"'; {run}; '"}
    main["traps"] = {f"USR1; {run}": "x", "USR2": f"'; {run}"}
    main["options"] = {f"errexit; {run}": True, "noexec": True}
    main["shopt"] = {f"extglob; {run}": True, "extdebug": "yes"}
    main["umask"], main["cwd"], main["unset"] = f"022; {run}", f"../..; {run}", [f"x; {run}", 3]
    main["history"], main["limits"] = [f"'; {run}", 4], {"nofile": "x", "bogus": 3}
    state["terminals"]["../../etc"] = main
    state["terminals"]["list"] = []
    state["tasks"] = [
        {"task": "1", "argv": ["sh"]},
        {"task": 1, "argv": []},
        7,
        {"task": 2, "argv": ["/no/such program"], "policy": "restart", "log": "/etc/passwd", "cwd": 4},
    ]
    house.state_path.write_text(json.dumps(state))
    woken = await house.wake()
    assert await woken.output('echo fine; declare -F; echo "$fine"; printf \'%s\\n\' "${!map[@]}" | sort') == (
        "fine\n" + f"{evil}\n" + "".join(sorted([f"{evil}\n", "'\n"]))
    )
    assert not (house.home / "pwned").exists()
    assert len(woken.restored.notes) > 10


async def test_a_state_that_grows_too_large_loses_its_largest_parts_by_name(house: Any, guest: Any) -> None:
    lines = [f"v{number}=$(head -c 30000 /dev/zero | tr '\\0' x)" for number in range(12)]
    result = await guest.run("\n".join([*lines, "small=1; huge=$(head -c 500000 /dev/zero | tr '\\0' y)"]))
    assert house.state_path.stat().st_size <= 256 << 10
    assert "not kept: huge (too large)" in result.notes
    assert sum("(too large)" in note for note in result.notes) < 8
    assert "small" in house.state()["terminals"]["main"]["variables"]


async def test_a_shell_too_large_to_read_keeps_its_last_state(guest: Any) -> None:
    await guest.run("x=1")
    result = await guest.run("x=2; huge=$(head -c 9000000 /dev/zero | tr '\\0' y)")
    assert result.exit_code is not None
    assert any("too large to read" in note for note in result.notes)
    assert await guest.output("unset huge; echo $x") == "2\n"


async def test_a_volume_that_cannot_be_written_is_told(house: Any, guest: Any) -> None:
    (house.home / ".nightporter").symlink_to("/proc")
    result = await guest.run("echo fine")
    assert (result.output, result.state_digest) == ("fine\n", None)
    assert any("not saved" in note for note in result.notes)


@pytest.mark.slow
@pytest.mark.parametrize("big", ["sleep 60 #" + "x" * 300_000, "X=" + "x" * 30_000 + "; sleep 60"])
async def test_large_tasks_do_not_drive_out_what_terminals_hold(house: Any, guest: Any, big: str) -> None:
    await guest.run("small=kept; f() { echo fn; }")
    for _ in range(12):
        await guest.run(big, timeout=0.1)
    await guest.run("true")
    assert len(await guest.connection.tasks()) == 12
    state = house.state()
    assert state["terminals"]["main"]["variables"]["small"]["value"] == "kept"
    assert "f" in state["terminals"]["main"]["functions"]
    assert len(state["tasks"]) == 12
    assert {task["policy"] for task in state["tasks"] if task["argv"][-1] == "[not kept]"} == {"never"}


@pytest.mark.parametrize(
    "spoiling",
    [
        "chmod 000 ~ .",
        "chmod 000 ~/.nightporter",
        "rm -rf ~/.nightporter; echo mine > ~/.nightporter",
        "rm -f ~/.nightporter/session_state.json; mkdir -p ~/.nightporter/session_state.json/x",
        "mkdir -p ~/.nightporter/.session_state.json.new/x",
        "rm -rf ~/.nightporter; ln -s /nowhere ~/.nightporter",
        "rm -f ~/.nightporter/session_state.json; ln -s /dev/zero ~/.nightporter/session_state.json",
        "rm -f ~/.nightporter/session_state.json; mkfifo ~/.nightporter/session_state.json",
    ],
)
async def test_whatever_stands_in_the_way_of_the_state_it_is_kept(house: Any, guest: Any, spoiling: str) -> None:
    await guest.run("spoiled=no")
    await guest.run(f"{spoiling}; spoiled=yes")
    result = await guest.run("echo $spoiled; kill -9 $$")
    assert result.output == "yes\n"
    assert await guest.output("echo $spoiled") == "yes\n"
    await guest.kill()
    woken = await house.wake()
    assert await woken.output("echo $spoiled") == "yes\n"
