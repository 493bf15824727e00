"""What a team reads of its agent: what is wrong with the file, and what a call of a tool came to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PAGE = "docs/reference/agent-api.md"


def no_file(path: Path) -> str:
    return f"{path} is not a file; name the agent's Python file with --agent or agent.file."


def not_python(path: Path) -> str:
    return f"{path} is not Python by its name; call it something.py."


def no_agent(path: Path) -> str:
    return f'{path} holds no Agent; end it with a line such as: agent = Agent(role="…", tools=[…])'


def several_agents(path: Path, names: Sequence[str]) -> str:
    return f"{path} holds several Agents ({', '.join(names)}); call the one to run `agent`."


def failed(path: Path, line: int, words: str, what: str) -> str:
    shown = f"\n    {words}" if words else ""
    return f"{path}, line {line}: {what}{shown}\nCorrect it and start again; {PAGE} says what an agent's file may hold."


def bad_tool(file: str, line: int, name: str, reason: str) -> str:
    return f"{file}, line {line}: the tool `{name}` cannot be used: {reason}."


def bad_agent(path: Path, reason: str) -> str:
    return f"{path}: {reason}."


def bad_name(name: str) -> str:
    return f"its name {name!r} is none for a tool: letters, digits, _ and -, at most 64 of them"


NO_DESCRIPTION = "it has no docstring; say in one what it does, since a model goes by that"
LISTS_NOT_ALLOWED = "it takes *arguments or positional-only ones; give it named parameters"
GENERATOR = "it is a generator; return a value instead of yielding"
KEY_IS_TEXT = "its parameter `key` gets the runtime's key, so it has to be annotated `key: str`"
MANY_CONTEXTS = "it asks for more than one Context"


def untyped(parameter: str) -> str:
    return f"its parameter `{parameter}` has no type; write for example `{parameter}: str`"


def unknown_type(reason: str) -> str:
    return f"a type of its parameters is not known ({reason}); import or define it above"


def no_schema(reason: str) -> str:
    return (
        f"its parameters cannot be told as JSON ({reason}); use str, int, float, bool, lists, dicts, Literal, Enum, "
        "dataclasses or pydantic models"
    )


def not_callable(value: object) -> str:
    return f"tools holds {value!r}, which is no function; put functions there, with @tool over them"


def not_a_policy(value: object) -> str:
    return f"policies holds {value!r}; put texts there, and functions that take a Call"


def async_policy(name: str) -> str:
    return f"the policy `{name}` is async; a policy has to decide at once, so write it with a plain def"


def twice(name: str) -> str:
    return f"two tools are called `{name}`; give one of them another name"


def name_taken(name: str) -> str:
    return f"`{name}` is the name of a built-in tool; call yours something else, or leave it out of builtin_tools"


def unknown_builtin(names: Sequence[str], known: Sequence[str]) -> str:
    return f"builtin_tools names {', '.join(names)}, which there is not; there are: {', '.join(known)}"


NO_ROLE = 'its role is empty; say who it is: Agent(role="You are …")'


def wants_to(name: str, arguments: str) -> str:
    """Completes "May I …?"."""
    return f"use `{name}` with {arguments}" if arguments else f"use `{name}`"


DONE = "Done."


def raised(name: str, error: BaseException) -> str:
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"`{name}` failed: {words}"


def cut_off(name: str, seconds: float | None, *, harmless: bool) -> str:
    """``seconds`` None: the person said /stop."""
    why = "was stopped" if seconds is None else f"took longer than {seconds:g} s and was given up"
    known = "" if harmless else " It may have been done in part, in full or not at all: check before you repeat it."
    return f"`{name}` {why}.{known}"


def untellable(name: str, kind: str) -> str:
    return (
        f"`{name}` ran, but what it returned cannot be told (a {kind}): it has to return text, numbers, lists, dicts, "
        "dataclasses or pydantic models."
    )


def policy_failed(name: str, error: BaseException) -> str:
    return f"the policy `{name}` could not decide ({type(error).__name__}: {error})"


def policy_said(name: str, answer: object) -> str:
    return f"the policy `{name}` answered {answer!r}, which is neither Ask, Refuse nor None"


CALL_IS_OVER = "the call this Context was for is over"


def too_much_to_write(size: int, most: int) -> str:
    return f"{size:,} bytes are more than the {most:,} that a tool may write as one file"


def not_written(path: str, reason: str) -> str:
    return f"{path} was not written: {reason or 'the sandbox did not say why'}"
