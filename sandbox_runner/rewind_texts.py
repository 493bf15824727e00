"""What a person reads of going back in the history of their files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

HOW = (
    "Say `/undo`, `/undo 3` (the last three turns that changed files), `/undo @12` (back to generation 12), `/redo`, "
    "`/diff`, `/diff 12`, or `/restore PATH@12`; `/history` lists the generations."
)
HOW_TO_RESTORE = "Say which file, as it was in which generation: `/restore notes/plan.md@12`; `/history` lists them."
FOR_MEMBERS = "Guests of a room cannot change or look at the history of its files."
LEFT_AS_IT_IS = "I left everything as it is."
MOVED_ON = "Your files have changed since you were asked, so I left them alone. Say it again if you still want it."
NO_CHANGES = "No turn has changed a file yet."
BEFORE = {
    "undo": "before an undo",
    "redo": "before a redo",
    "restore": "before a restore",
    "import": "before an import",
}


def not_in_volume(path: str) -> str:
    return f"`{path}` is not below `/workspace` or your home folder, which is all that I keep generations of."


def nothing_to(verb: str, steps: int) -> str:
    if verb == "redo":
        return "There is nothing to redo."
    if not steps:
        return "There is nothing to undo: no turn has changed a file yet."
    return f"I cannot go back so far: {steps} {'turn has' if steps == 1 else 'turns have'} changed files."


def no_such_generation(number: int) -> str:
    return f"There is no generation {number} (any more); `/history` lists those that there are."


def failed(reason: str) -> str:
    return f"I could not do that, and your files are as they were: {reason}"


def task(number: int, argv: Sequence[str]) -> str:
    return f"{number} (`{' '.join(argv)[:80]}`)"


def may_i(verb: str, to: int, path: str | None, tasks: Sequence[str], *, asleep: bool) -> str:
    what = f"restore `{path}` from generation {to}" if path else f"{verb}, back to generation {to}"
    word = "task" if len(tasks) == 1 else "tasks"
    if asleep:
        return f"{what}? It ends the {word} {', '.join(tasks)} of the sleeping sandbox, unless it ran then too"
    return f"{what}? It stops the running {word} {', '.join(tasks)}"


def note(verb: str, to: int, path: str | None) -> str:
    if verb == "import":
        return "import of an archive"
    return f"{verb} of {path} to {to}" if path else f"{verb} to {to}"


def restored(verb: str, to: int, number: int, path: str | None, changed: int, since: Sequence[str]) -> str:
    files = "1 file changed" if changed == 1 else f"{changed} files changed"
    if verb == "import":
        said = f"Your files are those of the archive: {files}."
    elif path:
        said = f"`{path}` is as it was in generation {to}: {files}."
    else:
        state = f"they were in generation {to}" if to else "before your first turn"
        said = f"Your files and terminals are as {state}: {files}."
    takes_back = changed > 0 and (path or verb == "import")
    said += f" This is generation {number}; `/undo` takes it back." if takes_back else f" This is generation {number}."
    if verb == "undo" and not path:
        said += " `/redo` brings back what was undone."
    if since:
        listed = "\n".join(f"- {each}" for each in since)
        said += f"\n\nThis went out since then, and stays done:\n{listed}"
    return said


def effect(method: str, host: str, status: str, at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC: {method} {host} ({status})"


def differences(before: int, after: int, text: str) -> str:
    if not text:
        return f"Generation {after} changed no file: it differs from {_named(before)} in the state of terminals alone."
    fence = "```"
    while fence in text:
        fence += "`"
    return f"What generation {after} changed, compared with {_named(before)}:\n\n{fence}diff\n{text}\n{fence}"


def _named(generation: int) -> str:
    return f"generation {generation}" if generation else "what was there before your first turn"
