"""Whatever is said to a shell, it is the same shell after sleep and wake as without: random statements, compared."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.sandbox_runner.guest.conftest import Guest, House

LOOK = "; ".join(
    "\\builtin " + words
    for words in [
        'echo "status $?" "params $#" "${@@Q}"', "pwd", "umask", "set +o", "shopt -p", "trap -p", "alias -p",
        "declare -f", "declare -F", "declare -p", "ulimit -Sa", "ulimit -Ha", "dirs -l -p",
        "history", "complete -p", "enable -n",
    ]
)  # fmt: skip
# What bash makes anew in each process, or says in another form once it was told in two ways.
OF_THE_PROCESS = (
    "BASHOPTS", "BASHPID", "BASH_ARGC", "BASH_ARGV", "BASH_COMMAND", "BASH_LINENO", "BASH_SOURCE", "BASH_SUBSHELL",
    "COLUMNS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "FUNCNAME", "HISTCMD", "LINENO", "LINES", "PIPESTATUS",
    "PPID", "RANDOM", "COPROC", "COPROC_PID",
    "SECONDS", "SHLVL", "SRANDOM", "TMPDIR", "_",
)  # fmt: skip

HISTORY_NUMBER = re.compile(r"^ +[0-9]+  ")
names = st.sampled_from(["a", "b", "_c", "Long_name", "É".encode().hex() + "_", "PATHS", "IFS2"])
# Every byte but NUL: as text that bash is given in $'…'.
values = st.one_of(
    st.sampled_from(["", " ", "\n", "'", '"', "\\", "$x", "`id`", "$(id)", "a\nb\n", "*", "~", "[a]=b", "!", "x=1;y"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
    st.binary(max_size=12).map(lambda data: data.replace(b"\0", b"").decode("latin-1")),
    st.integers(1, 9000).map("x".__mul__),
)


def word(text: str) -> str:
    """As a shell word, byte for byte, on one line."""
    plain = "".join(map(chr, range(32, 127))).replace("'", "").replace("\\", "")
    data = text.encode("latin-1", "ignore")
    return "$'" + "".join(chr(byte) if chr(byte) in plain else f"\\x{byte:02x}" for byte in data) + "'"


quoted = values.map(word)
arrays = st.lists(st.tuples(st.integers(0, 40), quoted), max_size=5)
keyed = st.lists(st.tuples(values.filter(lambda text: text.strip() != "" and len(text) < 99), quoted), max_size=4)
bodies = st.sampled_from(
    [
        "echo hi", 'cat <<EOF\n  $a "b" `c`\n\tEOF2\nEOF', "cat <<'E' <<-F\n'x'\nE\n\ty\n\tF", "local x; g() { :; }",
        "case $1 in (a|b) echo 1 ;; *) ;; esac",
        "[[ $1 == *(x) ]] && echo $'a\\nb'", "for ((i=0; i<2; i++)); do ll; done",
        "ll -a", "while read -r l; do :; done < <(echo x) 2>&1 | cat >&2 &", "echo ${a//\\'/\"}; (cd /; :) || { :; }",
    ]
)  # fmt: skip
OPTIONS = (
    "allexport braceexpand errtrace functrace hashall ignoreeof keyword monitor noclobber noglob nolog notify "
    "nounset physical pipefail posix verbose xtrace"
)
SHOPTS = (
    "autocd cdspell checkhash checkjobs direxpand dotglob execfail expand_aliases extdebug extglob failglob "
    "globstar huponexit inherit_errexit lastpipe localvar_inherit nocaseglob nocasematch nullglob patsub_replacement "
    "sourcepath xpg_echo"
)
options, shopts = st.sampled_from(OPTIONS.split()), st.sampled_from(SHOPTS.split())
signals = st.sampled_from(["EXIT", "ERR", "DEBUG", "RETURN", "INT", "TERM", "USR1", "WINCH", "RTMIN+2"])
WHOLE = [
    "ln -sfn . link; cd link",
    "cd /usr",
    "pushd /tmp >/dev/null",
    "mkdir -p $'n\\nl/x' && pushd $'n\\nl/x' >/dev/null",
    "popd >/dev/null 2>&1",
    "false",
    "(exit 7)",
    "IFS=:",
    "IFS=",
    "export IFS=0123456789",
    "PROMPT_COMMAND='false'",
    "PROMPT_COMMAND=(a 'b c')",
    "PS1='$ '",
    "PS4='+$LINENO '",
    "ulimit -S -n 200",
    "ulimit -n 300",
    "ulimit -c 0",
    "export BASH_ENV=/nowhere ENV=x",
    "exec 1>&-",
    "exec 2>&-",
    "exec 1>&- 2>&- 0<&-",
    "export PATH=/usr/bin",
    "LC_ALL=C",
    "TMOUT=900",
    "OPTIND=3",
    "BASH_COMPAT=4.4",
    "HISTSIZE=7",
    "CDPATH=/usr",
    "builtin true",
    "command cd /",
    "unalias -a",
    "unset -f f",
    "set -a; allexported=1; set +a",
    "hash -r",
    "FIGNORE=.o; GLOBIGNORE='*.o'",
    "set -e",
    "set +e",
    "set -u",
    "set -f",
    "mkdir -p gone/deeper && cd gone/deeper && rm -r ../../gone && cd ../..",
    "mkdir -p gone && cd gone && rmdir ../gone && cd /",
    "cd - >/dev/null 2>&1",
    "dirs -c",
    "pushd -n /usr >/dev/null",
    "history -c",
    "history -c; history -s 'one by hand'",
    "HISTCONTROL=ignoreboth HISTIGNORE='*'",
    "mapfile -t read_lines < <(printf 'a b\\n\\n\\tc')",
    "read -r -a words <<< 'x y  z'",
    "declare -a sparse; sparse[1000000]=far; sparse[3]=near; unset 'sparse[3]'",
    "declare -A named; named[$'k\\nl']=v named['']=x 2>/dev/null",
    "export -nf f 2>/dev/null",
    "readonly -f g-h 2>/dev/null",
    "unset -n ref",
    "declare -n chained=ref ref=a",
    "n=4; ((n++)); let n*=2",
    "printf -v formatted '%s\\n' a b",
    "set -- \"$@\" more; shift",
    "OPTIND=1; getopts ab: opt -a -b x",
    "ulimit -S -s 4096",
    "ulimit -S -f 100000",
    "ulimit -H -n 400; ulimit -S -n 250",
    "LC_ALL=C.UTF-8",
    "Umlaut='äé漢😀'; export Umlaut; declare -u upper='straße ä'",
    "declare -x -A exported_map=([a]=b)",
    "trap 'echo \"$BASH_COMMAND\"' EXIT HUP",
    "f() { trap 'x' RETURN; }; f",
    "local_only() { local x=1; declare -g from_function=$'a\\nb'; }; local_only",
    "hash -p /bin/ls listing 2>/dev/null",
    "complete -W $'a \\'b\\'\\nc' -o nospace one two",
    "complete -F f -D; complete -A directory -X '!*.o' 'a b'",
    "complete -r one 2>/dev/null",
    "enable -n kill test",
    "enable test",
    "exec 7>/dev/null; exec 8</etc/passwd",
    "exec 7>&-",
    "stty -echo 2>/dev/null",
    "coproc false 2>/dev/null; wait",
    "declare -n element='indexed_by[1]'; indexed_by=(a b c)",
    "declare -ai sums=(1+1 0x10)",
    "shopt -s compat44",
    "BASH_COMPAT=",
    "eval 'with space() { :; }' 2>/dev/null; eval 'a:b() { echo colon; }'",
]  # fmt: skip
statements = st.one_of(
    st.builds("{}={}".format, names, quoted),
    st.builds("export {}={}".format, names, quoted),
    st.builds("readonly R{}={}".format, names, quoted),
    st.builds("declare -{} {}={}".format, st.sampled_from(["l", "u", "t", "xl", "c"]), names, quoted),
    st.builds("declare -{} {}={}".format, st.sampled_from(["i", "ix"]), names, st.integers(-99, 10**9)),
    st.builds("declare -{} {}".format, st.sampled_from(["x", "i", "-", "a", "A", "n"]), st.sampled_from(["d1", "d2"])),
    st.builds("declare -n ref={}".format, names),
    st.builds(
        lambda name, flag, items: f"declare -{flag} l{name}=({' '.join(f'[{i}]={v}' for i, v in items)})",
        names,
        st.sampled_from(["a", "ax", "al"]),
        arrays,
    ),
    st.builds(
        lambda name, items: f"declare -A m{name}=({' '.join(f'[{word(k)}]={v}' for k, v in items)})", names, keyed
    ),
    st.builds("{}() {{ {}\n}}".format, st.sampled_from(["f", "g-h", "k.l", "printf", "declare", "ü"]), bodies),
    st.builds("f() ( {}\n); export -f f".format, bodies),
    st.builds("alias -- {}={}".format, st.sampled_from(["ll", "if", "a.b", "declare", "{", "-"]), quoted),
    st.builds("trap -- {} {}".format, st.sampled_from(["''", "'true'", "': \"$x\"'", r"$': a\nb'"]), signals),
    st.builds("trap - {}".format, signals),
    st.builds("set {}o {}".format, st.sampled_from("-+"), options),
    st.builds("shopt -{} {}".format, st.sampled_from("su"), shopts),
    st.builds("umask {:03o}".format, st.integers(0, 0o77)),
    st.builds("unset -v {}".format, st.one_of(names, st.sampled_from(["LANG", "TERM", "PAGER", "IFS", "PS4", "HOME"]))),
    st.builds("export -n {}".format, st.one_of(names, st.sampled_from(["LANG", "HOME"]))),
    st.builds("set -- {}".format, st.lists(quoted, max_size=3).map(" ".join)),
    st.builds("mkdir -p -- {0} && cd -- {0}".format, st.sampled_from(["d", "'a b'", r"$'n\nl'", "-x", r"$'\xff'"])),
    st.sampled_from(WHOLE),
)


def observable(text: str) -> list[str]:
    kept = []
    skipping = False
    for line in text.splitlines():
        if line.startswith("declare -"):
            name = line.split(" ", 2)[2].partition("=")[0]
            skipping = name in OF_THE_PROCESS or name.startswith("__np_")
        # `set -v` says what was asked where standard error is open, as it is again after a wake.
        if not skipping and line != LOOK:
            # Its numbers begin anew in each shell.
            kept.append(HISTORY_NUMBER.sub("", line))
    return kept


async def compare(said: list[str]) -> None:
    """Two lives from one state: the shell that was told all this, and the one that is made of what it left."""
    with tempfile.TemporaryDirectory() as folder:
        house = House(Path(folder))
        guest = await house.wake()
        try:
            for statement in said:
                result = await guest.run(statement, timeout=20)
                assert result.status == "exited", (statement, result)
            state = house.state_path.read_bytes()
            awake = await look(guest, folder)
            await guest.kill()
            house.state_path.write_bytes(state)  # as it was before anybody looked
            guest = await house.wake()
            assert await look(guest, folder) == awake, said
        finally:
            await guest.kill()


async def look(guest: Guest, folder: str) -> list[str]:
    result = await guest.run(LOOK, timeout=20)
    assert result.status == "exited", result
    return observable(result.output.replace(folder, "/house"))


common = {
    "suppress_health_check": list(HealthCheck),
    "print_blob": True,
    "phases": set(Phase) - {Phase.shrink},  # the whole of a failure is said soon
}


@settings(max_examples=8, **common)
@given(st.lists(statements, min_size=4, max_size=14))
def test_a_shell_is_the_same_after_sleep_and_wake(said: list[str]) -> None:
    asyncio.run(compare(said))


@pytest.mark.slow
@settings(max_examples=250, **common)
@given(st.lists(statements, min_size=1, max_size=25))
def test_many_shells_are_the_same_after_sleep_and_wake(said: list[str]) -> None:
    asyncio.run(compare(said))
