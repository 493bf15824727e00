"""The state of one shell as data: read from a dump, and written as a script that gives it back.

Values stay data. Only functions, traps and aliases are shell text by nature: functions are handed over through the
environment, where bash accepts nothing but a definition; traps and aliases are quoted.
"""

from __future__ import annotations

import re

from . import limits
from .declarations import read_declarations, read_jobs, read_statements, read_switches, read_traps, read_words
from .shell_scripts import NEEDED_BUILTINS, START, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .declarations import Value

    State = dict[str, Any]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FUNCTION_NAME = re.compile(r"[^\s\0/='\"\\$`()<>|&;%]{1,200}\Z")
_REFERENCE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[(?:[0-9]{1,18}|[@*])\])?\Z")
_INTEGER = re.compile(r"-?[0-9]{1,20}\Z")
_FUNCTION_HEAD = re.compile(r"\S+ \(\) \n\{ ")
_SIGNAL = re.compile(r"[A-Z0-9+-]{2,16}\Z")
_SWITCH = re.compile(r"[a-z0-9_-]{1,40}\Z")
_FLAGS = re.compile(r"[A-Za-z]{0,12}\Z")
_INDEX = re.compile(r"[0-9]{1,18}\Z")
_UMASK = re.compile(r"[0-7]{3,4}\Z")
_NUMBER_OF_NEXT = re.compile(r"^ *[0-9]+[* ] \Z", re.MULTILINE)
_ENVIRONMENT_STRING = 120 << 10
"""Linux takes at most 128 KiB a string."""

_SHELL_OWN = frozenset(
    (
        "_", "BASH", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS",
        "BASH_COMMAND", "BASH_EXECUTION_STRING", "BASH_LINENO", "BASH_MONOSECONDS", "BASH_REMATCH", "BASH_SOURCE",
        "BASH_SUBSHELL", "BASH_TRAPSIG", "BASH_VERSINFO", "BASH_VERSION", "BASH_XTRACEFD", "COLUMNS", "COMPREPLY",
        "COMP_CWORD", "COMP_KEY", "COMP_LINE", "COMP_POINT", "COMP_TYPE", "COMP_WORDS", "COPROC_PID", "DIRSTACK",
        "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "HOSTNAME", "HOSTTYPE", "LINENO",
        "LINES", "MACHTYPE", "OSTYPE", "PIPESTATUS", "PPID", "PWD", "RANDOM", "READLINE_ARGUMENT", "READLINE_LINE",
        "READLINE_MARK", "READLINE_POINT", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "UID",
    )
)  # fmt: skip
"""What bash makes by itself, or what means something in one process only (open descriptors, its children)."""
_TRAPS_OF_LINES = ("RETURN", "ERR", "DEBUG")
_PROMPTS = frozenset(("PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "TMOUT"))
_DEFAULT_VARIABLES = {
    "IFS": " \t\n", "PS1": "", "PS2": "> ", "PS4": "+ ", "HISTSIZE": "500", "HISTFILESIZE": "500", "OPTERR": "1",
    "OPTIND": "1",
}  # fmt: skip
_NO_VALUE = frozenset(("BASH_LOADABLES_PATH", "COMP_WORDBREAKS"))
"""Shown without a value, or with one of the build's, until somebody gives them one."""
_DEFAULT_OPTIONS = frozenset(("braceexpand", "hashall", "interactive-comments", "monitor"))
_KEPT_OUT_OPTIONS = frozenset(("history", "noexec", "privileged", "onecmd", "histexpand"))
_DEFAULT_SHOPTS = frozenset(
    (
        "checkwinsize",
        "cmdhist",
        "complete_fullquote",
        "expand_aliases",
        "extquote",
        "force_fignore",
        "globasciiranges",
        "globskipdots",
        "hostcomplete",
        "interactive_comments",
        "patsub_replacement",
        "progcomp",
        "promptvars",
        "sourcepath",
    )
)
_KEPT_OUT_SHOPTS = frozenset(("login_shell", "restricted_shell"))
_HIDDEN_BUILTINS = frozenset(("builtin", "."))
"""A function of that name would take the guest's own lines over."""


def _is_own(name: str) -> bool:
    return name in _SHELL_OWN or name.startswith("__np_")


class Dump:
    """What a shell wrote after a command."""

    def __init__(self, data: bytes, token: str, traps: bytes = b"") -> None:
        """``token``: of the call it was made for. ``traps``: what ``trap -p`` prints."""
        self._token = token
        fields = data.decode("utf-8", "surrogateescape").split("\0")
        self._traps = traps.decode("utf-8", "surrogateescape")
        self.sections = dict(zip(fields[::2], fields[1::2]))  # noqa: B905 - strict= is 3.10

    @property
    def status(self) -> int:
        text = self.sections.get("status", "")
        return int(text) if _INTEGER.match(text) else -1

    @property
    def history(self) -> list[str]:
        """Its last commands; the token stands before each."""
        entries = self.sections.get("history", "").split(self._token)[1:]
        whole = [_NUMBER_OF_NEXT.sub("", entry) for entry in entries[:-1]] + entries[-1:]
        return [entry.rstrip("\n") for entry in whole]

    @property
    def outputs(self) -> list[str]:
        """Where standard output and error go: ``terminal``, ``closed``, ``/dev/null`` or ``other``."""
        return self.sections.get("outputs", "").split()

    @property
    def jobs(self) -> dict[int, str]:
        """Process groups of its jobs, and what they run in the shell's words."""
        return read_jobs(self.sections.get("jobs", ""), self.sections.get("groups", ""))

    def state(self, base_environment: dict[str, str]) -> State:
        """As it goes into the state file, before anything is withheld from it."""
        sections = self.sections
        flags = sections.get("flags", "")
        options = read_switches(sections.get("options", ""), "-o")
        shopt = read_switches(sections.get("shopt", ""), "-s")
        # Switched off while dumping:
        options["xtrace"], options["verbose"], options["functrace"] = "x" in flags, "v" in flags, "T" in flags
        shopt["expand_aliases"] = "expand_aliases" in sections.get("bashopts", "").split(":")
        variables, unset = _variables(sections.get("variables", ""), base_environment)
        aliases = read_declarations(sections.get("aliases", "")).get("BASH_ALIASES", ("", {}))[1]
        return {
            "aliases": aliases if isinstance(aliases, dict) else {},
            "completions": read_statements(sections.get("completions", ""), "complete"),
            "cwd": sections.get("cwd", ""),
            "directories": _directories(sections)[1:],
            "disabled": [
                words[1] for words in read_statements(sections.get("disabled", ""), "enable") if len(words) == 2
            ],
            "functions": _functions(sections),
            "hashed": _hashed(sections.get("hashed", ""), variables, base_environment),
            "options": _differences(options, _DEFAULT_OPTIONS, _KEPT_OUT_OPTIONS),
            "positional": read_words(sections.get("positional", "")),
            "shopt": _differences(shopt, _DEFAULT_SHOPTS, _KEPT_OUT_SHOPTS),
            "status": max(0, self.status),
            "traps": read_traps(self._traps),
            "umask": sections.get("umask", "").strip(),
            "unset": unset,
            "variables": variables,
        }


def _differences(found: dict[str, bool], default: frozenset[str], left_out: frozenset[str]) -> dict[str, bool]:
    return {name: on for name, on in found.items() if name not in left_out and on != (name in default)}


def _variables(text: str, base: dict[str, str]) -> tuple[dict[str, dict[str, Value]], list[str]]:
    variables: dict[str, dict[str, Value]] = {}
    exported: set[str] = set()
    declared: set[str] = set()
    for name, (flags, value) in read_declarations(text).items():
        declared.add(name)
        if "x" in flags:
            exported.add(name)
            if flags == "x" and name in base and base[name] == value:
                continue
        if _is_own(name) or (flags in ("", "i") and value is not None and _DEFAULT_VARIABLES.get(name) == value):
            continue
        if name in _NO_VALUE and (value is None or name == "BASH_LOADABLES_PATH"):
            continue
        variables[name] = {"flags": "".join(sorted(flags)), "value": value}
    unset = {name for name in base if NAME.match(name) and name not in exported and not _is_own(name)}
    unset |= _DEFAULT_VARIABLES.keys() - declared
    return variables, sorted(unset)


def _directories(sections: dict[str, str]) -> list[str]:
    """The stack as ``dirs`` says it, one at a time: a name may hold a line feed. The last is none."""
    said = [text for section, text in sections.items() if section.startswith("d:")]
    return [text.removesuffix("\n") for text in said if text]


def _functions(sections: dict[str, str]) -> dict[str, dict[str, Any]]:
    functions: dict[str, dict[str, Any]] = {}
    for section, text in sections.items():
        if section.startswith("f:declare -f"):
            declaration, _, name = section[2:].rpartition(" ")
            flags = "".join(sorted(set(declaration[len("declare -") :]) & set("rtx")))
            functions[name] = {"flags": flags, "text": text.rstrip("\n")}
    return functions


def _hashed(text: str, variables: dict[str, dict[str, Value]], base: dict[str, str]) -> dict[str, str]:
    """Programs that ``hash -p`` was told of: what it found by PATH it finds again."""
    path = variables["PATH"]["value"] if "PATH" in variables else base.get("PATH")
    folders = path.split(":") if isinstance(path, str) else []
    told: dict[str, str] = {}
    for words in read_statements(text, "builtin hash -p"):
        *path_words, name = words or [""]
        program = " ".join(path_words)
        folder, _, base_name = program.rpartition("/")
        if program.startswith("/") and (base_name != name or folder not in folders):
            told[name] = program
    return told


def exported(state: State) -> dict[str, str]:
    """The exported plain variables of a state: what a program started in it gets beside the base."""
    return {
        name: variable["value"]
        for name, variable in state["variables"].items()
        if "x" in variable["flags"] and isinstance(variable["value"], str)
    }


def without_hooks(state: State) -> State:
    """A state without what runs or acts by itself between commands: prompts, traps, options."""
    variables = {name: value for name, value in state["variables"].items() if name not in _PROMPTS}
    return {**state, "variables": variables, "traps": {}, "options": {}, "limits": {}}


def function_environment(state: State) -> tuple[dict[str, str], list[str]]:
    """Environment entries that make bash define the functions, and the names that cannot be given back so."""
    entries: dict[str, str] = {}
    refused: list[str] = []
    for name, function in state["functions"].items():
        text = function["text"]
        head = _FUNCTION_HEAD.match(text)
        usable = _FUNCTION_NAME.match(name) and name not in _HIDDEN_BUILTINS and len(text) < _ENVIRONMENT_STRING
        if head and usable:
            entries[f"BASH_FUNC_{name}%%"] = "() { " + text[head.end() :]
        else:
            refused.append(name)
    return entries, refused


def _assignment(name: str, variable: dict[str, Any], notes: list[str]) -> str | None:
    flags, value = variable["flags"], variable["value"]
    kept = "".join(flag for flag in flags if flag in "aAcilnrtux")
    declare = f"\\builtin declare -g{kept} " if kept else "\\builtin declare -g -- "
    if value is None:
        return declare + name
    values = list(value.values()) if isinstance(value, dict) else [value]
    # Bash evaluates what it assigns to an integer or a name reference: only plain ones are handed over.
    if ("i" in flags and not all(_INTEGER.match(item) for item in values)) or (
        "n" in flags and not (isinstance(value, str) and _REFERENCE.match(value))
    ):
        notes.append(f"not restored: {name} (its value would be evaluated)")
        return None
    if isinstance(value, dict):
        elements = " ".join(f"[{key if 'a' in flags else quote(key)}]={quote(item)}" for key, item in value.items())
        # The parser takes a compound value only in a plain assignment here; read-only comes after it.
        readonly = f"; \\builtin declare -gr {name}" if "r" in flags else ""
        return f"\\builtin declare -g{kept.replace('r', '')} {name}; {name}=({elements}){readonly}"
    return f"{declare}{name}={quote(value)}"


def restore_script(state: State | None, dump_line: str, history: list[str]) -> tuple[str, list[str]]:
    """The start file of a shell; it ends with a dump, which proves that the shell is there. And notes."""
    notes: list[str] = []
    lines = [START]
    if state is None:
        lines.append("\\builtin shopt -u extglob\n")
    # Only so does an entry get the time without which ``history`` shows none of the mark that a dump finds it by.
    lines += [f"HISTTIMEFORMAT= \\builtin history -s -- {quote(entry)}\n" for entry in history]
    if state is not None:
        lines += [line + " 2>/dev/null\n" for line in _restoring(state, notes)]
    lines.append(dump_line + "\n")
    return "".join(lines), notes


def _restoring(state: State, notes: list[str]) -> list[str]:
    # ``-x`` of all functions comes with the way they were handed over.
    lines = [
        f"\\builtin export -fn {quote(name)}"
        for name, function in state["functions"].items()
        if "x" not in function["flags"]
    ]
    lines += [f"\\builtin declare -ft {quote(n)}" for n, f in state["functions"].items() if "t" in f["flags"]]
    lines += [f"\\builtin readonly -f {quote(n)}" for n, f in state["functions"].items() if "r" in f["flags"]]
    lines += [f"\\builtin unset -v {name}" for name in state["unset"]]
    writable: list[str] = []
    readonly: list[str] = []
    for name, variable in state["variables"].items():
        line = _assignment(name, variable, notes)
        if line is not None:
            (readonly if "r" in variable["flags"] else writable).append(line)
    lines += [f"\\builtin pushd -n {quote(folder)} >/dev/null" for folder in reversed(state["directories"])]
    if state["positional"]:
        lines.append("\\builtin set -- " + " ".join(map(quote, state["positional"])))
    lines += [f"BASH_ALIASES[{quote(name)}]={quote(value)}" for name, value in state["aliases"].items()]
    lines += [f"\\builtin shopt {'-s' if on else '-u'} {name}" for name, on in state["shopt"].items()]
    lines += [f"\\builtin hash -p {quote(path)} {quote(name)}" for name, path in state["hashed"].items()]
    lines += ["\\builtin complete " + " ".join(map(quote, words)) for words in state["completions"]]
    lines += [f"\\builtin enable -n {quote(name)}" for name in state["disabled"] if name not in NEEDED_BUILTINS]
    # After the switches: BASH_COMPAT and GLOBIGNORE are switches too, and speak last.
    lines += writable + readonly
    # Not those that bash runs between these very lines.
    lines += [_trap(name, command) for name, command in state["traps"].items() if name not in _TRAPS_OF_LINES]
    if not state["shopt"].get("extglob"):
        lines.append("\\builtin shopt -u extglob")
    if state["umask"]:
        lines.append(f"\\builtin umask {state['umask']}")
    options = sorted(
        state["options"].items(), key=lambda option: option[0] in ("errexit", "nounset", "verbose", "xtrace")
    )
    lines += [f"\\builtin set {'-o' if on else '+o'} {name}" for name, on in options]
    lines += [_trap(name, state["traps"][name]) for name in _TRAPS_OF_LINES if name in state["traps"]]
    return lines


def _trap(name: str, command: str) -> str:
    return f"\\builtin trap -- {quote(command)} {name}"


def _text(value: object, limit: int = 64 << 10) -> bool:
    return isinstance(value, str) and "\0" not in value and len(value) <= limit


def _checked_variable(variable: object) -> dict[str, Any] | None:
    if not isinstance(variable, dict) or not isinstance(variable.get("flags"), str):
        return None
    flags, value = variable["flags"], variable.get("value")
    if not _FLAGS.match(flags):
        return None
    if isinstance(value, dict):
        indexed, associative = "a" in flags, "A" in flags
        if indexed == associative:
            return None
        for key, item in value.items():
            if not _text(key) or not _text(item) or (indexed and not _INDEX.match(key)):
                return None
    elif value is not None and not _text(value):
        return None
    return {"flags": flags, "value": value}


def checked(raw: object) -> tuple[State, list[str]]:
    """A terminal's state from the file, with everything left out that it may not hold; and what that was."""
    refused: list[str] = []
    source = raw if isinstance(raw, dict) else {}

    def items(key: str) -> list[tuple[str, Any]]:
        value = source.get(key, {})
        if not isinstance(value, dict):
            refused.append(key)
            return []
        return sorted(value.items())

    state: State = {"aliases": {}, "functions": {}, "options": {}, "shopt": {}, "traps": {}, "variables": {}}
    for name, variable in items("variables"):
        good = _checked_variable(variable)
        if NAME.match(name) and not _is_own(name) and good is not None:
            state["variables"][name] = good
        else:
            refused.append(f"variable {name[:80]}")
    for name, function in items("functions"):
        if isinstance(function, dict) and _text(function.get("text"), 256 << 10) and _FUNCTION_NAME.match(name):
            flags = function.get("flags")
            kept = "".join(flag for flag in flags if flag in "rtx") if isinstance(flags, str) else ""
            state["functions"][name] = {"flags": kept, "text": function["text"]}
        else:
            refused.append(f"function {name[:80]}")
    for key, pattern in (("aliases", _FUNCTION_NAME), ("traps", _SIGNAL)):
        for name, value in items(key):
            if pattern.match(name) and _text(value):
                state[key][name] = value
            else:
                refused.append(f"{key} {name[:80]}")
    for key, left_out in (("options", _KEPT_OUT_OPTIONS), ("shopt", _KEPT_OUT_SHOPTS)):
        for name, on in items(key):
            if _SWITCH.match(name) and isinstance(on, bool) and name not in left_out:
                state[key][name] = on
            else:
                refused.append(f"{key} {name[:80]}")
    umask, cwd, unset = source.get("umask", ""), source.get("cwd", ""), source.get("unset", [])
    state["umask"] = umask if isinstance(umask, str) and _UMASK.match(umask) else ""
    state["cwd"] = cwd if isinstance(cwd, str) and _text(cwd, 4096) and cwd.startswith("/") else ""
    status = source.get("status", 0)
    state["status"] = status if isinstance(status, int) and not isinstance(status, bool) and 0 <= status < 256 else 0
    hashed = source.get("hashed", {})
    state["hashed"] = (
        {name: path for name, path in hashed.items() if _FUNCTION_NAME.match(name) and _text(path, 4096)}
        if isinstance(hashed, dict)
        else {}
    )
    completions = source.get("completions", [])
    state["completions"] = [
        words
        for words in (completions[:1000] if isinstance(completions, list) else [])
        if isinstance(words, list) and words and all(_text(word) for word in words)
    ]
    for key, most in (("disabled", 64), ("descriptors", 400)):
        values = source.get(key, [])
        state[key] = [each for each in values[:100] if _text(each, most)] if isinstance(values, list) else []
    for key in ("directories", "positional"):
        values = source.get(key, [])
        whole = isinstance(values, list) and all(_text(item) for item in values)
        state[key] = values[:4096] if whole else []
        if not whole:
            refused.append(key)
    state["directories"] = [folder for folder in state["directories"] if folder.startswith("/")]
    names = unset if isinstance(unset, list) else []
    state["unset"] = [name for name in names if isinstance(name, str) and NAME.match(name)]
    program = source.get("open")
    state["open"] = program[:200] if isinstance(program, str) and _text(program) else ""
    for key in ("history", "not_kept", "scrollback"):
        value = source.get(key, [])
        state[key] = [item for item in value if _text(item)][-200:] if isinstance(value, list) else []
    state["limits"] = limits.checked(source.get("limits", {}))
    return state, refused
