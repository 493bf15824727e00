"""What a person reads from the command line."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROMPT = "> "
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Text without control characters: a command's output must not steer the terminal it is shown on."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def program() -> str:
    """What to type for this program: as it was typed, where it is on no path."""
    typed = sys.argv[0]
    by_path = os.sep in typed and Path(typed).name == "nightporter" and shutil.which("nightporter") != typed
    return typed if by_path else "nightporter"


def never_started(home: Path) -> str:
    return f"Nightporter was never started in {home}; start it with: {program()} up"


def not_running(home: Path) -> str:
    return f"Nightporter does not run in {home}; start it with: {program()} up"


def server_away(url: str) -> str:
    return f"Nothing answers at {url}; start it with: {program()} up"


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
    return f"It waits for an approval; answer it in another terminal: {program()} actions list"


def waiting_approval(code: str, kind: str, text: str, until: str) -> str:
    return f"{code}  until {until}  {kind:<16} {' '.join(text.split())}"


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


NOT_UTF8 = "What was typed is not UTF-8, as names and words here are; only names of files may be anything."


def unexpected(error: Exception) -> str:
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    kind = type(error).__name__
    return f"Unexpected {kind}{': ' if first else ''}{first}; run it again with --debug to see where it comes from."


def status(found: dict[str, Any]) -> str:
    """The lines of ``nightporter status``."""
    lines = [f"home     {found['home']}"]
    if not found["running"]:
        return "\n".join([*lines, f"running  no; start it with: {program()} up"])
    up = f" (up is process {found['up']})" if found["up"] else ""
    lines.append(f"running  yes, at {found['http']}{up}")
    lines.append("ready    yes" if found["ready"] else f"ready    no, missing: {', '.join(found['missing'])}")
    if beat := found.get("heartbeat"):
        quiet = f", not at {beat['quiet_hours']}" if beat["quiet_hours"] else ""
        lines.append(f"beats    every {beat['every']}{quiet}")
    lines += [f"channel  {plain(problem)}" for problem in found["channels"]]
    lines += [f"{name:44} {value:g}" for name, value in sorted(found["figures"].items())]
    lines += [plain(_undelivered(row)) for row in found["undelivered"]]
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
    return f"There is no database at {path} yet; it is made when `{program()} up` starts for the first time."


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


def no_runner_in(home: Path) -> str:
    return f"No `nightporter runner` runs in {home}."


def runner_serves(missing: Sequence[str]) -> str:
    return f"does not live: {', '.join(missing)}" if missing else "The runner serves."


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


CUT_EVENTS = "Long events are cut at `…`; `--json` shows them whole."


def earlier_events(count: int) -> str:
    return f"The newest are shown; {count} earlier events are not: `--limit`, or `--after 1` to read from the oldest."


def later_events(seq: int) -> str:
    return f"There are more: go on with `--after {seq}`."
