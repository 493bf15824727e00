"""The bash text that the guest makes a terminal run: before a command, after it, and at a shell's start.

It must survive whatever a command did to the shell (options, traps, aliases, IFS, redirections), change nothing a
command can see but ``__np_*`` names, and start no process. Everything in it that is data is quoted.
"""

from __future__ import annotations

RECORD = "\036"


def quote(text: str) -> str:
    """One shell word, whatever is in it (NUL cannot be)."""
    return "'" + text.replace("'", "'\\''") + "'"


def begin_marker(token: str) -> bytes:
    return f"{RECORD}np:begin:{token}{RECORD}".encode()


def end_marker(token: str) -> bytes:
    return f"{RECORD}np:end:{token}{RECORD}".encode()


_KEEP_STATUS = r"""
{ case $__np_flags in (*x*) \builtin set -x;; esac
case $__np_flags in (*e*) \builtin return 0;; esac
\builtin return "$__np_status"; } 2>/dev/null
"""
"""Give ``$?`` and ``set -x`` back; under ``set -e`` a status other than 0 would end the shell here."""


_PUT_PROMPTS_AWAY = r"""
if [[ -n ${{PROMPT_COMMAND[*]+x}}${{PS0+x}}${{PS1-}} ]]; then
\builtin declare -p PROMPT_COMMAND PS0 PS1 >|{names} 2>/dev/null || \builtin true
\builtin mapfile -d '' -t __np_prompts <{names}
\builtin unset -v PROMPT_COMMAND PS0 PS1 2>/dev/null || \builtin true
fi
"""
_GIVE_PROMPTS_BACK = r"""
if [[ -n ${__np_prompts+x} ]]; then
\builtin eval "$__np_prompts"; \builtin unset -v __np_prompts
fi 2>/dev/null
"""
"""Commands see their own prompts, but bash must not run what is in them: nobody sees a prompt here, and one that hangs
would hang every command of its terminal, wake after wake."""


def begin_script(history_entry: str | None) -> str:
    """Sourced with the call's token: what the terminal shows before it is no output of the command."""
    remember = "" if history_entry is None else f"\\builtin history -s -- {quote(history_entry)}\n"
    return (
        "{ __np_status=$?; __np_flags=$-; \\builtin set +x; } 2>/dev/null\n"
        + _GIVE_PROMPTS_BACK
        + remember
        + "\\builtin printf '\\036np:begin:%s\\036' \"$1\" >/dev/tty\n"
        + _KEEP_STATUS
    )


def dump_script(fifo: str, names: str) -> str:
    """Sourced with the call's token, after the command and once more on a line of its own.

    The second line is the one that runs when an error or SIGINT made bash give up the first; the shell reports once
    a token. It writes NUL-separated pairs straight from the builtins, without a subshell.
    """
    section = "\\builtin printf '\\0%s\\0' "
    return rf"""{{ __np_status=$?; __np_flags=$-; \builtin set +x; }} 2>/dev/null
if [[ ${{__np_last-}} != "$1" ]]; then
__np_last=$1
case $__np_flags in (*T*) \builtin trap -p DEBUG >|{quote(names)}; \builtin trap - DEBUG; \builtin set +T
__np_debug="$(<{quote(names)})";; (*) __np_debug=;; esac
\builtin printf '\036np:end:%s\036' "$1" >/dev/tty
\builtin declare -F >|{quote(names)} || \builtin true
\builtin mapfile -t __np_names <{quote(names)}
{{ \builtin printf '\0start:%s\0status\0%s\0flags\0%s\0cwd\0%s' "$1" "$__np_status" "$__np_flags" "$PWD"
{section}umask; \builtin umask
{section}options; \builtin set +o
{section}shopt; \builtin shopt -p || \builtin true
{section}traps; \builtin trap -p; \builtin printf '%s\n' "$__np_debug"
{section}aliases; \builtin declare -p BASH_ALIASES
for __np_name in "${{__np_names[@]}}"; do {section}"f:$__np_name"; \builtin declare -f "${{__np_name##* }}"; done
{section}variables; \builtin declare -p
\builtin printf '\0end:%s\0' "$1"; }} >|{quote(fifo)} 2>/dev/null
\builtin unset -v __np_names __np_name
{_PUT_PROMPTS_AWAY.format(names=quote(names))}
case $__np_flags in (*T*) \builtin set -T; \builtin eval "$__np_debug";; esac
fi
{_KEEP_STATUS}"""


def call_lines(begin: str, command: str, dump: str, token: str) -> bytes:
    """What is typed into the terminal for one command. Its standard input is empty: nobody is there to type."""
    after = f"\\builtin . {quote(dump)} {token}"
    first = f" \\builtin . {quote(begin)} {token}; \\builtin . {quote(command)} </dev/null; {after}\n"
    return f"{first} {after}\n".encode()


START = r"""\builtin unset -v HISTFILE MAILCHECK
\builtin set +o history
\builtin set +H
PS1=
"""
"""History is kept by ``history -s`` alone, so that typed lines of the guest never get into it."""
