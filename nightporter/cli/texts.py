"""What a person reads from the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_runner.environment_file import Environment

PROMPT = "> "
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Text without control characters: a command's output must not steer the terminal it is shown on."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def never_started(home: Path) -> str:
    return f"Nightporter was never started in {home}; start it with: nightporter up"


def not_running(home: Path) -> str:
    return f"Nightporter does not run in {home}; start it with: nightporter up"


def server_away(url: str) -> str:
    return f"Nothing answers at {url}; start it with: nightporter up"


def token_refused() -> str:
    return "The server does not accept this home's token; it was started from another home, or with another http.token."


def server_refused(status: int, why: str) -> str:
    return f"The server refused it ({status}): {why}"


def no_answer_in_time(seconds: float, message_id: str) -> str:
    return (
        f"No answer within {seconds:g} s; the message is not lost and will be answered: GET /v1/messages/{message_id},"
        " or ask with a longer --timeout."
    )


def nothing_to_say() -> str:
    return 'There is nothing to say; give a text with -m "…", or by standard input.'


def file_unreadable(path: Path, reason: str) -> str:
    return f"{path} cannot be read ({reason}); name a file that is there."


def not_saved(folder: Path, reason: str) -> str:
    return f"The answer's files cannot be put into {folder} ({reason}); name another folder with --save."


def reply(found: dict[str, Any]) -> str:
    return "\n".join([str(found["text"]), *(attached(file) for file in found.get("files", []))])


def attached(file: dict[str, Any]) -> str:
    """Where a file of an answer is. Its name is somebody else's word."""
    where = plain(str(file.get("saved") or f"{file['url']} (needs the token; or ask again with --save FOLDER)"))
    return f"[file] {plain(str(file['name']))}, {file['size']:,} bytes: {where}"


def waits_for_approval() -> str:
    return "It waits for an approval; answer it in another terminal: nightporter actions list"


def waiting_approval(code: str, kind: str, text: str, until: str) -> str:
    return f"{code}  until {until}  {kind:<16} {text}"


def progress(data: dict[str, Any]) -> str:
    return plain(str(data.get("text", "")))


def chat_welcome() -> str:
    return "Ctrl-D ends the talk; what you asked goes on. /help says what can be said."


def server_is_away() -> str:
    return "(the server is away; what you said will be sent when it is back)"


def not_sent(why: str) -> str:
    return f"(not sent: {why})"


def no_reply(status: str) -> str:
    return "(done, without a word)" if status == "done" else f"({status}, without a word; `nightporter journal show`)"


def said(text: str) -> str:
    return f"\n{plain(text)}\n"


def said_elsewhere(text: str) -> str:
    return f"\n(elsewhere) {plain(text)}\n"


def usage(what: str, command: str) -> str:
    if "Usage:" in what:
        return what
    return f"{what.strip().rstrip('.')}; what can be said is in: {command} --help"


def unexpected(error: Exception) -> str:
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    kind = type(error).__name__
    return f"Unexpected {kind}{': ' if first else ''}{first}; run it again with --debug to see where it comes from."


def status(found: dict[str, Any]) -> str:
    """The lines of ``nightporter status``."""
    lines = [f"home     {found['home']}"]
    if not found["running"]:
        return "\n".join([*lines, "running  no; start it with: nightporter up"])
    up = f" (up is process {found['up']})" if found["up"] else ""
    lines.append(f"running  yes, at {found['http']}{up}")
    lines.append("ready    yes" if found["ready"] else f"ready    no, missing: {', '.join(found['missing'])}")
    if beat := found.get("heartbeat"):
        quiet = f", not at {beat['quiet_hours']}" if beat["quiet_hours"] else ""
        lines.append(f"beats    every {beat['every']}{quiet}")
    lines += [f"channel  {plain(problem)}" for problem in found["channels"]]
    lines += [f"{name:44} {value:g}" for name, value in sorted(found["figures"].items())]
    lines += [
        plain(f"{row['state']:<18} {row['channel']}: {row['reason']} (reply {row['reply']})")
        for row in found["undelivered"]
    ]
    return "\n".join(lines)


def _undelivered(row: dict[str, Any]) -> str:
    return f"{row['state']:<18} {row['channel']}: {row['reason']} (reply {row['reply']})"


def broken_chain(faults: int) -> str:
    return f"The journal does not hold: {faults} faults. Restore the database from a backup, and keep this one."


def chain_holds(events: int) -> str:
    return f"The journal holds: {events} events checked."


def fault(principal: str, seq: int, what: str) -> str:
    return f"journal of {principal}, event {seq}: {what}"


def no_such_path(path: str) -> str:
    return f"There is no {path} in the last generation; paths start with workspace/ or home/."


def no_database(path: Path) -> str:
    return f"There is no database at {path} yet; it is made when `nightporter up` starts for the first time."


def nobody_called(name: str) -> str:
    return f"Nobody is called {name!r}; give a user's UUID, a name of the local channel such as owner, or channel:id."


def not_of_a_time(words: str) -> str:
    return f"`{words}` in the time is not understood; write what is to be said apart from it"


def no_schedule(code: str) -> str:
    return f"There is no schedule {code!r}; `nightporter schedules list` shows them."


def database_unavailable(reason: str) -> str:
    return f"The database cannot be read: {reason}. Start it, or correct database_url."


def about_to(verb: str, whom: str) -> str:
    return f"About to {verb}: {whom}"


def sure() -> str:
    return "Go on? [y/N]"


def not_confirmed() -> str:
    return "Nothing was done. Without a terminal to ask at, add --yes to do it."


def left_as_it_is() -> str:
    return "Nothing was done."


def not_done(why: str) -> str:
    return f"Nothing was done: {why}."


def export_exists(file: Path) -> str:
    return f"{file} exists; name another file."


def export_failed(file: Path, why: str) -> str:
    return f"{file} cannot be written ({why})."


def no_runner_here(host: str) -> str:
    return f"No `nightporter runner` runs on this host ({host}); one that `nightporter up` started stops with it."


def draining(runners: int) -> str:
    return "1 runner ends its turns and leaves." if runners == 1 else f"{runners} runners end their turns and leave."


def drained() -> str:
    return "All turns have ended, all sandboxes sleep, and the runner is gone."


def cut_off(seconds: float) -> str:
    return f"A turn had not ended after {seconds:g} s and was cut off; another runner goes on with it from its journal."


def installation(key: str) -> str:
    return f"lives in the installation whose key is {key}"


def unmerge_first(user: str) -> str:
    return (
        f"{user} is merged into another user: unmerge it first (nightporter users unmerge {user}), or forget that one."
    )


def still_busy() -> str:
    return (
        "A turn or a sandbox of theirs does not end. They are blocked; run it again in a minute, or stop Nightporter."
    )


def forgotten(receipt: str) -> str:
    return f"Forgotten. The receipt is {receipt}; the journal's chain still verifies (nightporter journal verify)."


NOTHING_DIFFERS = "Nothing differs."


def no_state() -> str:
    return "There is no process state yet: no command has run in a sandbox."


def state_unreadable(reason: str) -> str:
    return f"The process state cannot be read ({reason}); the next wake takes the one of the last good generation."


def state_not_believed(reason: str) -> str:
    return f"The next wake will not use this but the state of the last good generation: {reason}."


def nothing_installed() -> str:
    return "Nothing is installed in this workspace: no package of pip, npm, apt, uv or cargo."


def environment_unreadable(reason: str) -> str:
    return f"environment.json cannot be used ({reason}); it is written anew when something is installed."


def environment(found: Environment) -> str:
    """``environment.json`` for people."""
    base = found.base
    pythons = ", ".join(f"Python {version} ({path})" for path, version in sorted(base.python.items()))
    facts = [base.system, base.machine, f"glibc {base.glibc}", pythons, f"Node {base.node or 'none'}"]
    lines = [f"on {', '.join(filter(None, facts))}", f"   {base.digest}"]
    for place in found.python:
        kind = "pip" if place.kind == "user" else "virtual environment"
        lines.append(f"{kind}, Python {place.python}, {place.where}:")
        lines += [f"  {line}" for line in place.packages]
    for name, packages in (("npm", found.npm), ("uv", found.uv), ("cargo", found.cargo)):
        lines += [f"{name}:", *(f"  {line}" for line in packages)] if packages else []
    if found.apt:
        lines.append("apt:")
        lines += [f"  {each.package} {each.version}{'' if each.asked else ' (needed)'}" for each in found.apt]
    lines += [f"not kept: {name}" for name in found.not_kept]
    if found.rebuilt is not None:
        lines += [f"rebuilt: {line}" for line in found.rebuilt.done]
        lines += [f"not rebuilt: {line}" for line in found.rebuilt.failed]
    return "\n".join(lines)


def no_generation() -> str:
    return "There is no generation of this workspace yet."


def exported_workspace(file: str, generation: int, entries: int, size: int) -> str:
    return f"Generation {generation} ({entries} entries) is in {file} ({size} bytes)."


CUT_EVENTS = "Long events are cut at `…`; `--json` shows them whole."


def earlier_events(count: int) -> str:
    return f"The newest are shown; {count} earlier events are not: `--limit`, or `--after 1` to read from the oldest."


def later_events(seq: int) -> str:
    return f"There are more: go on with `--after {seq}`."


def nothing_serves() -> str:
    return "Nothing serves this home now, so nothing was changed. Start it (`nightporter up`), and say it again."


def nobody_serves() -> str:
    return "No runner has served this yet; it is done when one runs (`nightporter up`)."


def state(kept: Mapping[str, Any]) -> str:
    """``session_state.json`` for people."""
    lines = []
    for name, terminal in sorted(kept.get("terminals", {}).items()):
        lines.append(f"terminal {name}: in {terminal.get('cwd')}, umask {terminal.get('umask')}")
        for variable, held in sorted(terminal.get("variables", {}).items()):
            flags = f" ({held.get('flags')})" if held.get("flags") else ""
            lines.append(f"  {variable}{flags}={json.dumps(held.get('value'), ensure_ascii=False)[:200]}")
        for key in ("functions", "aliases", "traps", "options", "shopt", "limits", "positional", "unset", "not_kept"):
            held = terminal.get(key)
            if held:
                shown = ", ".join(map(str, sorted(held) if isinstance(held, dict) else held))
                lines.append(f"  {key.replace('_', ' ')}: {shown[:500]}")
        lines.append(f"  history: {len(terminal.get('history', []))} commands")
        if terminal.get("open"):
            lines.append(f"  open in it: {terminal['open']} (it cannot be brought back)")
        lines += [f"  | {line}" for line in terminal.get("scrollback", [])]
    for task in kept.get("tasks", []):
        command = " ".join(map(str, task.get("argv", [])))[:200]
        lines.append(
            f"task {task.get('task')}: {command}, policy {task.get('policy')}, started {task.get('starts')}x, "
            f"log {task.get('log') or 'none'}"
        )
    lines += [f"timer: {line}" for line in str(kept.get("crontab", "")).splitlines() if line.strip()]
    return "\n".join(lines) or "Nothing is kept."


def not_imported(file: str, reason: str) -> str:
    return f"{file} was not imported, and nothing was changed: {reason}"


NOT_UTF8 = "it is not UTF-8"
NOT_AN_OBJECT = "it is no JSON object"


def not_json(reason: str) -> str:
    return f"it is not JSON ({reason})"


def field_missing(name: str) -> str:
    return f"`{name}` is missing or empty"


def field_wrong(name: str, wanted: str) -> str:
    return f"`{name}` must be {wanted}"


def other_words(key: str) -> str:
    return f"id {key!r} was there already, with other words; those stay"


def bad_line(number: int, reason: str) -> str:
    return f"line {number}: {reason}"


def imported(new: int, known: int, bad: int) -> str:
    left = f" {bad} lines were not taken; mend them and import the file again." if bad else ""
    return f"Imported {new} messages; {known} were there already.{left}"


def note(identifier: str, text: str, kind: str, at: str) -> str:
    return f"{identifier.replace('-', '')[:8]}  {at}  {kind:10}  {' '.join(text.split())}"


def hit(identifier: str, kind: str, text: str, at: str, score: float) -> str:
    return f"{identifier.replace('-', '')[:8]}  {at[:16]}  {score:.4f}  {kind:8}  {' '.join(text.split())[:300]}"


def nothing_to_forget() -> str:
    return "Nothing in memory is called so, or holds all of these words."


def exported_memory(file: Path, lines: int) -> str:
    return f"{file} holds {lines} lines: notes, turns, imported words and the journal."


def by_words_alone(reason: str) -> str:
    return f"Searched by words alone: {reason}."


def names_several() -> str:
    return "An id names several things; give more of it."


def about_to_forget(lines: Sequence[str]) -> str:
    return "This forgets for good:\n" + "\n".join(f"- {line}" for line in lines)


# nightporter db


def database_checked(found: str, head: str, rows: int, events: int, *, sound: bool) -> str:
    if found != head:
        return (
            f"The database is at schema {found}, this release has {head}; bring it there with: nightporter db migrate"
        )
    if not sound:
        return "The database is damaged; restore a copy with: nightporter db restore FILE --replace"
    return f"The database is sound: schema {head}, {rows} rows, {events} journal events whose chains hold."


def database_migrated(head: str, *, done: bool) -> str:
    return f"The database is at schema {head} now." if done else f"The database was at schema {head} already."


def database_kept(file: Path, rows: int) -> str:
    return (
        f"{file} holds a copy of the database ({rows} rows). Volumes and blobs are files of their own:"
        " keep the folders volumes and blobs of the home as well, after this."
    )


def database_restored(file: Path, rows: int, events: int, aside: Path | None) -> str:
    before = f" What was there before is in {aside}." if aside else ""
    return f"The database is as {file} was: {rows} rows, {events} journal events whose chains hold.{before}"


def database_moved(url: str, rows: int, events: int) -> str:
    return (
        f"Copied and compared: {rows} rows, {events} journal events whose chains hold. To use it, set in"
        f' nightporter.toml: database_url = "{url}"'
    )


def not_a_copy(file: Path, reason: str) -> str:
    return f"{file} is not a whole copy of a database ({reason}); nothing was changed."


def restore_over(path: Path) -> str:
    return f"There is a database in {path} already; to put the copy in its place, say --replace (it is kept beside it)."


def copy_exists(file: Path) -> str:
    return f"{file} exists already and is not written over; name another file."


def copy_not_written(file: Path, reason: str) -> str:
    return f"{file} cannot be written ({reason}); name a file in a folder of yours."


def stop_first(home: Path) -> str:
    return f"Nightporter runs in {home}; stop it first, so that nothing is written meanwhile."


def moved_nowhere() -> str:
    return "That is the database in use; name another one."


def database_away(reason: str) -> str:
    return f"The database cannot be used: {plain(reason).strip()}"
