"""What a person reads of intake: answers to commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from identity.moves import LEFT
from identity.names import harmless
from identity.pairing import Waiting
from identity.rooms import Room
from identity.users import Known, User
from workspace_store.approvals import QUESTION, Approval, Decision, done
from workspace_store.checkpoints import CommittedGeneration
from workspace_store.facts import Trouble
from workspace_store.inbox import Row

NO_SUCH_TURN = "I know of no such turn; `recall` shows the ids of turns."
STOPPING = "Stopping."
NOTHING_TO_STOP = (
    "Nothing that you asked for is running or waiting. Background tasks go on; `tasks` lists them, `stop 1` ends one."
)
NOTHING_WAITS = "Nothing waits for an answer of yours."
WHICH_APPROVAL = "Say which one: `/approve ID` or `/deny ID`; `/actions` lists what waits."
NO_SUCH_APPROVAL = "I know of no such approval; `/actions` lists what waits for you."
NOT_YOURS = "This is not yours to answer."
NEEDS_MAIL_CODE = (
    "By mail I take only the answer written in the question's own mail, with its longer ID; answer that mail with it."
)
NO_GENERATIONS = "Your workspace has no generations yet."
NO_GENERATIONS_OF_ROOM = "This room's workspace has no generations yet."
STOP_IS_FOR_MEMBERS = "Only members can stop what runs here."
CONTINUE_WHERE = "Where shall we go on? Say `/continue email`, `/continue slack` or `/continue telegram`."
ROOMS_STAY = "What is said in a room stays there. Write to me in private, and say `/continue` there."
ALREADY_HERE = "We are there already."
CONTINUED_SUBJECT = "Where we were"
NOT_OF_THIS_ROOM = "That is not for this room: answer it where you were asked, or in private."
ANSWERED_IN_PRIVATE = (
    "That is between the two of us: I answer in our private conversation. If nothing comes there, write to me there "
    "first."
)
DISK_FULL = (
    "My disk is full. Until there is room I accept no messages: whoever writes is told to try again later, or their "
    "platform brings it again. What I had accepted is safe. Please free some space on my machine; nothing has to be "
    "started."
)
DISK_HAS_ROOM = "There is room on my disk again: I accept messages."
LET_IN = "Let in"
TURN_AWAY = "Turn away"
WELCOME = "You are let in. I have not kept what you wrote before: please say it again. `/help` lists commands."


def status(waiting: int, awake: bool, generation: int, at: datetime | None, briefing: Sequence[str]) -> str:
    lines = [
        f"- messages waiting or running: {waiting}",
        f"- sandbox: {'awake' if awake else 'asleep'}",
        f"- workspace generation: {generation or 'none yet'}",
        f"- last turn: {at:%Y-%m-%d %H:%M:%S} UTC" if at else "- last turn: none yet",
        *(f"- {line[0].lower()}{line[1:]}" for line in briefing),
    ]
    return "\n".join(lines)


def folding_stopped(trouble: Trouble) -> str:
    return (
        f"- old turns are not shortened: that failed its check {trouble.failures} times in a row, last "
        f"{moment(trouble.at)} ({trouble.reason}); nothing is lost, and I try again an hour later"
    )


def whoami(user: User, identities: list[Known]) -> str:
    known = ", ".join(one.name for one in identities)
    return f"You are {user.display_name} (`{user.id}`), {user.role}. I know you as {known}."


def not_linked(channel: str) -> str:
    return (
        f"I do not know you at {channel} yet. Say `/link` here for a code, and `/link CODE` to me at {channel}; once "
        f"both sides have confirmed, say `/continue {channel}` again."
    )


def continued(channel: str) -> str:
    return (
        f"We go on at {channel}: I have sent you there where we were. What I am still working on is answered there "
        "too; whatever you write here is answered here."
    )


def exchange(row: Row, answers: list[str]) -> str:
    """One message of a thread and what was answered, in short."""
    asked = _short(str(json.loads(row.envelope).get("text") or ""))
    said = "; ".join(map(_short, filter(None, answers)))
    still = {"pending": "(waits)", "running": "(I am working on it)", "waiting": "(waits for an answer)"}
    return f"- You: {asked}\n  Me: {said or still.get(row.status, '(no answer)')}"


def thread_so_far(channel: str, exchanges: list[str], under_way: int, waiting: list[str]) -> str:
    parts = [f"Here we go on from {channel}, with the same memory and files."]
    parts.append("\n".join(["**Said last**", *exchanges]) if exchanges else "Nothing was said there yet.")
    if under_way:
        parts.append(f"**Under way**: {under_way} message{'s' if under_way > 1 else ''}; the answer comes here.")
    if waiting:
        parts.append("\n".join(["**Waits for your answer**", *waiting]))
    return "\n\n".join(parts)


def _short(text: str, most: int = 200) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[:most]}…"


def whoami_in_room(user: User, room: Room) -> str:
    called = f" {harmless(room.display_name)}" if room.display_name else ""
    return (
        f"This is the room{called} (`{room.id}`, {room.name}): what is said here belongs to it. You are "
        f"{harmless(user.display_name)} (`{user.id}`). Ask in private for the channels I know you at."
    )


def generation(found: CommittedGeneration) -> str:
    at = datetime.fromtimestamp(found.at / 1e6, UTC)
    changed = found.changed if found.visible is None else found.visible
    changes = f"{counted(changed)} changed" if changed else "only the state of your terminals changed"
    note = " ".join(found.note.split())
    return f"- {found.generation}: {at:%Y-%m-%d %H:%M:%S} UTC, {changes}, {counted(found.files)} in all: {note}"


def counted(files: int) -> str:
    return "1 file" if files == 1 else f"{files} files"


def moved(place: str) -> str:
    """What whoever's agent lives elsewhere now is told, whatever they wrote."""
    return f"Your agent has moved to {harmless(place)}. Nothing was taken in here; write to it there."


def answered(decision: Decision, verdict: str, choice: str) -> str:
    """What whoever answered an approval reads."""
    found = decision.approval
    if found is None:
        return NO_SUCH_APPROVAL
    about = found.phrase
    if decision.outcome == "decided":
        return "\n\n".join(filter(None, (f"{done(found)}: {about}", decision.told)))
    if decision.outcome == "not_yours":
        return NOT_YOURS
    if decision.outcome == "needs_token":
        return NEEDS_MAIL_CODE
    if decision.outcome == "bad_edit":
        return f"Nothing was decided: {decision.told}. {about}"
    if decision.outcome == "no_such_choice":
        offered = ", ".join(f"`{c.name}`" for c in found.choices if c.verdict == verdict)
        return f"`{choice}` was not offered; you can say: {offered or 'nothing of the kind'}."
    if decision.outcome == "expired":
        return f"Too late: this expired {moment(found.decided_at or found.expires_at)}. Nothing was done. {about}"
    if found.status.startswith(LEFT):
        return f"Nothing was decided: who this is about has moved to another installation; it is decided there. {about}"
    return f"Already {_verdict(found)}{_by(found)}, {moment(found.decided_at or 0)}; it stays so. {about}"


def decided_for_the_engine(found: Approval) -> str:
    """What the turn that waited for an answer is told."""
    if found.kind == QUESTION:
        return f"[Answer to your question “{found.text}”{_by(found)}: {done(found)}]"
    return f"[{done(found)}{_by(found)}: {found.text}; approval {found.code}]"


def waiting(found: Approval, code: str) -> str:
    if found.kind == QUESTION:
        return f"- {found.text} (answer where it was asked)"
    text = " ".join(found.text.split())
    return f"- `{code}` {text}: `/approve {code}` or `/deny {code}`, until {moment(found.expires_at)}"


def _verdict(found: Approval) -> str:
    return "denied" if found.status == "denied" else "approved and used" if found.status == "consumed" else "approved"


def _by(found: Approval) -> str:
    return f" by {found.decided_by_name}" if found.decided_by_name else ""


def moment(at: int) -> str:
    """A time in words; ``at`` in microseconds since the epoch."""
    return f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def stranger(code: str) -> str:
    return (
        f"I do not know you yet, so I have not read what you wrote. Your code is `{code}`: an administrator can let "
        f"you in with it (`/admin approve {code}`) within an hour. If you use me at another channel already, say "
        "`/link` there and bring its code here."
    )


def somebody_asks(found: Waiting) -> str:
    claim = found.claim
    known = Known(claim.channel, claim.account, claim.external_id)
    called = f', who goes by the name "{harmless(claim.display)}" there,' if claim.display else ""
    return (
        f"`{known.name}`{called} asks to be let in, and waits for an hour.\n\n"
        f"- `/admin approve {found.code}` lets them in as a member\n"
        f"- `/admin refuse {found.code}` turns them away"
    )


def stranger_settled(found: Waiting, by: str, *, let_in: bool) -> str:
    claim = found.claim
    outcome = "✅ Let in" if let_in else "❌ Turned away"
    who = f" by {by}" if by else ""
    return f"`{Known(claim.channel, claim.account, claim.external_id).name}` asked to be let in.\n\n{outcome}{who}."


def over_limit(sender: int, channel: int) -> str:
    rules = [f"{sender} messages a minute from one sender"] if sender else []
    rules += [f"{channel} a minute at one channel"] if channel else []
    return (
        f"That is more than I take: {' and '.join(rules)}. I have not taken this message, nor will I take what comes "
        "before there is room again; please wait a minute and send it again. What I took before is being answered."
    )


def mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB" if size >= 1 << 20 else f"{size:,} bytes"


def file_too_large(most: int) -> str:
    return f"it is larger than the {mebibytes(most)} that a file may have here (`files.max_bytes`)"


def files_too_large(most: int) -> str:
    return f"the files of one message may have {mebibytes(most)} together (`files.max_message_bytes`)"


def too_many_files(most: int) -> str:
    return f"a message may have {most} files (`files.max_count`)"


def taken_back(found: Approval) -> str:
    return f"Taking the reaction back changes nothing: this was {_verdict(found)}, and stays so. May I {found.text}?"
