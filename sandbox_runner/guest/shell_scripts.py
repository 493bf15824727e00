"""The bash text that the guest makes a terminal run: before a command, after it, and at a shell's start.

It must survive whatever a command did to the shell (options, traps, aliases, IFS, redirections), change nothing a
command can see but ``__np_*`` names, and start no process. Everything in it that is data is quoted.
"""

from __future__ import annotations

RECORD = "\036"
HISTORY_ENTRIES = 100


def quote(text: str) -> str:
    """One shell word, whatever is in it (NUL cannot be)."""
    return "'" + text.replace("'", "'\\''") + "'"


def begin_marker(token: str) -> bytes:
    return f"{RECORD}np:begin:{token}{RECORD}".encode()


def end_marker(token: str) -> bytes:
    return f"{RECORD}np:end:{token}{RECORD}".encode()


_PUT_AWAY = r"""__np_flags=$- __np_options=${BASHOPTS-}; \builtin shopt -u expand_aliases; \builtin set +xv"""
"""The first line of every script here: no word of what follows is anybody's alias, and none of it is shown.

Itself it is shown where ``set -x`` or ``set -v`` is on; ``requests.without_own_lines`` knows it.
"""

_KEEP_STATUS = r"""
{ case $__np_flags in (*x*) \builtin set -x;; esac
case :$__np_options: in (*:expand_aliases:*) \builtin shopt -s expand_aliases;; esac
case $__np_flags in (*v*) \builtin set -v;; esac
case $__np_flags in (*e*) \builtin return 0;; esac
\builtin return "$__np_status"; } 2>/dev/null
"""
"""Give ``$?``, ``set -x``, ``set -v`` and aliases back. Under ``set -e`` a status other than 0 would end the shell."""

OWN_LINE = _PUT_AWAY

_PUT_PROMPTS_AWAY = r"""
if [[ -n ${{PROMPT_COMMAND[*]+x}}${{PS0+x}}${{PS1-}}${{TMOUT+x}} ]]; then
\builtin declare -p PROMPT_COMMAND PS0 PS1 TMOUT >|{names} 2>/dev/null || \builtin true
\builtin mapfile -d '' -t __np_prompts <{names}
\builtin unset -v PROMPT_COMMAND PS0 PS1 TMOUT 2>/dev/null || \builtin true
fi
"""
_GIVE_PROMPTS_BACK = r"""
if [[ -n ${__np_prompts+x} ]]; then
\builtin eval "$__np_prompts"; \builtin unset -v __np_prompts
fi 2>/dev/null
"""
"""Commands see their own prompts, but bash must not run what is in them: nobody sees a prompt here, and one that hangs
would hang every command of its terminal, wake after wake. Nor may it end for want of typing (TMOUT)."""

_UNMUTE = r"""
{ \builtin : 9>&1; } 2>/dev/null || \exec >|/dev/tty
{ \builtin : 9>&2; } 2>/dev/null || \exec 2>|/dev/tty
"""
"""A command that closed the shell's own output would leave the terminal mute for good.

(What ``builtin exec`` redirects lasts no longer than itself.)
"""


def begin_script(history_entry: str | None) -> str:
    """Sourced after ``__np_token`` was set: what the terminal shows before it is no output of the command."""
    remember = "" if history_entry is None else f"\\builtin history -s -- {quote(history_entry)}\n"
    return (
        _PUT_AWAY
        + _GIVE_PROMPTS_BACK
        + remember
        + _UNMUTE
        + "\\builtin printf '\\036np:begin:%s\\036' \"$__np_token\" >/dev/tty\n"
        # A command must not know what will end it.
        + "\\builtin unset -v __np_token\n"
        + _KEEP_STATUS
    )


def dump_script(fifo: str, names: str) -> str:
    """Sourced after ``__np_token`` was set, after the command and once more on a line of its own.

    The second line is the one that runs when an error or SIGINT made bash give up the first; the shell reports once
    a token. It writes NUL-separated pairs straight from the builtins, without a subshell.
    """
    section = "\\builtin printf '\\0%s\\0' "
    return rf"""{_PUT_AWAY}
if [[ ${{__np_last-}} != "$__np_token" ]]; then
__np_last=$__np_token
case $__np_flags in (*T*) \builtin trap -p DEBUG >|{quote(names)}; \builtin trap - DEBUG; \builtin set +T
\builtin mapfile -d '' -t __np_debug <{quote(names)};; esac
\builtin declare -F >|{quote(names)} || \builtin true
\builtin mapfile -t __np_names <{quote(names)}
__np_outputs=
for __np_name in 1 2; do
if [[ -t $__np_name ]]; then __np_outputs+=terminal
elif [[ ! -e /proc/self/fd/$__np_name ]]; then __np_outputs+=closed
elif [[ /proc/self/fd/$__np_name -ef /dev/null ]]; then __np_outputs+=/dev/null
else __np_outputs+=other; fi
__np_outputs+=' '
done
{{ \builtin printf '\0start:%s\0status\0%s\0flags\0%s\0cwd\0%s' "$__np_token" "$__np_status" "$__np_flags" "$PWD"
\builtin printf '\0bashopts\0%s' "$__np_options"
{section}outputs; \builtin printf %s "$__np_outputs"
{section}umask; \builtin umask
{section}options; \builtin set +o
{section}shopt; \builtin shopt -p || \builtin true
__np_name=0
while {section}"d:$__np_name"; \builtin dirs -l "+$__np_name"; do __np_name=$((__np_name + 1)); done
{section}history; HISTTIMEFORMAT=$__np_token \builtin history {HISTORY_ENTRIES}
{section}aliases; \builtin declare -p BASH_ALIASES
{section}jobs; \builtin jobs || \builtin true
{section}groups; \builtin jobs -p || \builtin true
{section}hashed; \builtin hash -l || \builtin true
{section}completions; \builtin complete -p || \builtin true
{section}disabled; \builtin enable -n || \builtin true
{section}positional; case $# in (0) ;; (*) \builtin printf '%q ' "$@";; esac
for __np_name in "${{__np_names[@]}}"; do {section}"f:$__np_name"; \builtin declare -f "${{__np_name##* }}"; done
{section}variables; \builtin declare -p
\builtin printf '\0end:%s\0' "$__np_token"; }} >|{quote(fifo)} 2>/dev/null
\builtin unset -v __np_names __np_name __np_outputs
{_PUT_PROMPTS_AWAY.format(names=quote(names))}
case $__np_flags in (*T*) \builtin set -T; \builtin eval "${{__np_debug-}}"; \builtin unset -v __np_debug;; esac
fi
{_KEEP_STATUS}"""


NEEDED_BUILTINS = [
    ".",
    ":",
    "alias",
    "builtin",
    "complete",
    "declare",
    "dirs",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "hash",
    "history",
    "jobs",
    "mapfile",
    "printf",
    "pushd",
    "readonly",
    "return",
    "set",
    "shopt",
    "trap",
    "true",
    "umask",
    "unalias",
    "unset",
]
"""What the lines here are made of."""
REVEAL = (
    "POSIXLY_CORRECT=y; \\unset -f builtin . enable; "
    f"\\enable {' '.join(NEEDED_BUILTINS)}; \\unset -v POSIXLY_CORRECT __np_last; "
)
"""Functions hide builtins, also ``builtin``. In POSIX mode they cannot hide ``unset``, and assignments need no name.

And ``enable -n`` takes builtins away, as long as ``enable`` itself is there.
"""


def dump_line(dump: str, fifo: str, token: str) -> str:
    """Traps are told from here: inside a sourced script those for DEBUG and RETURN do not show."""
    return (
        f"__np_token={token} __np_status=$?; \\builtin printf '\\036np:end:%s\\036' {token} >/dev/tty; "
        f"\\builtin printf '\\0traps:%s\\0' {token} >|{quote(fifo)}; \\builtin trap -p >|{quote(fifo)}; "
        f"\\builtin . {quote(dump)}"
    )


def call_lines(begin: str, command: str, after: str, token: str, status: int | None) -> bytes:
    """What is typed into the terminal for one command. Its standard input is empty: nobody is there to type.

    ``after``: its ``dump_line``. ``status``: what ``$?`` is to be for it, where that is not the shell's own.
    """
    before = f"__np_token={token} __np_status={'$?' if status is None else status}; \\builtin . {quote(begin)}"
    return f" {before}; \\builtin . {quote(command)} </dev/null; {after}\n {after}\n".encode()


START = r"""\builtin unset -v HISTFILE MAILCHECK
\builtin set +o history
\builtin set +H
PS1= HISTSIZE=500 HISTFILESIZE=500
"""
"""History is kept by ``history -s`` alone, so that typed lines of the guest never get into it."""
