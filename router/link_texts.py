"""What a person reads of linking and of merges: what would happen, what happened, and what to do."""

from __future__ import annotations

from identity import codes
from identity.merging import Holdings, Merge
from identity.names import harmless
from identity.users import Claim, Known, User
from router.doors import Doors
from router.texts import moment

CONFIRM = "Confirm"
OBJECT = "Object"
WRONG_CODE = (
    "That code is not known, has run out, was used, or was not said at the other channel yet: there, say `/link CODE` "
    "first. Codes last 15 minutes; `/link` makes a new one."
)
LOCKED = "There were too many wrong codes from here. For an hour I take none, neither wrong ones nor right ones."
OWN_CODE = "That is your own code. Say it at your other channel: there it links the two."
SAID_IN_A_ROOM = "Others read along there, so that code is void now. Say `/link` again, and the new code in private."
NOT_FROM_HERE = "I do not know which of your channels this came from, so I cannot link it."
ALREADY_ONE = "You are one already."
DONE_ALREADY = "That is confirmed and done."
NOTHING_TO_CONFIRM = "Say which code: `/confirm CODE`."
NOTHING_TO_UNLINK = "Nothing was linked in the last seven days. An administrator can take older links apart."
NOTHING_TO_OBJECT_TO = "No merge of yours waits."
NOTHING = "nothing yet"
OBJECTED = "Stopped: nothing is joined. Both sides are told."
BUSY = "Something of yours is running just now. Try again when it is done, or `/stop` it first."


def link_code(code: str, doors: Doors) -> str:
    shown = codes.shown(code)
    ways = [f"- say `/link {shown}` there, in private"]
    if doors.telegram:
        ways.append(f"- for Telegram, open https://t.me/{doors.telegram}?start={shown}")
    if doors.email:
        local, _, domain = doors.email.rpartition("@")
        ways.append(f"- for email, write to `{local}+{shown}@{domain}`, with anything in it")
    lines = "\n".join(ways)
    return (
        f"Your code is `{shown}`. It is good for 15 minutes and for one channel. At the channel that is to be yours "
        f"too:\n\n{lines}\n\nThen I tell each side who would gain what, and nothing is joined before both sides have "
        "confirmed it. Give the code to nobody: whoever you confirm becomes you."
    )


def known_as(known: Known | Claim) -> str:
    found = known if isinstance(known, Known) else Known(known.channel, known.account, known.external_id)
    called = harmless(known.display) if known.display and known.display != known.external_id else ""
    return f"`{found.name}` ({called})" if called else f"`{found.name}`"


def holds(found: Holdings) -> str:
    parts = [
        f"{found.files} file{'s' * (found.files != 1)} ({found.bytes:,} bytes)" if found.files else "",
        f"{found.notes} note{'s' * (found.notes != 1)}" if found.notes else "",
        f"{found.turns} turn{'s' * (found.turns != 1)} of conversation" if found.turns else "",
    ]
    return ", ".join(filter(None, parts)) or NOTHING


def would_join(them: str, theirs: str, yours: str, code: str, *, admin: bool, wait: bool) -> str:
    """``them``: who is at the other side; ``theirs`` and ``yours``: what each side has."""
    warning = f"\n\n**You are an administrator: {them} would be one as well.**" if admin else ""
    later = "\n\nBoth of you have something, so it is joined a day later, unless somebody objects." if wait else ""
    return (
        f"Is {them} you? If both sides confirm, the two become one person: whoever writes from there can read, change "
        f"and do all that you can here (you have {yours}), and you gain what is there ({theirs}).{warning}{later}\n\n"
        f"If it is, say `/confirm {codes.shown(code)}` here and there. If you are not sure, do nothing: then nothing "
        "is joined."
    )


def confirmed_here(them: str) -> str:
    return f"Confirmed here. As soon as {them} confirms it too, you are one."


def confirmed_there(them: str, code: str) -> str:
    return f"{them} has confirmed. Say `/confirm {codes.shown(code)}` here if that is you; otherwise do nothing."


def joined(them: str) -> str:
    return (
        f"Done: {them} and you are one person now, with one memory and one workspace. If that was wrong, `/unlink` "
        "takes it back within seven days."
    )


def joined_with_folder(them: str, folder: str) -> str:
    return f"{joined(them)} The files from there are in `/workspace/merged/{folder}`."


def joins_when_quiet(them: str) -> str:
    return f"Confirmed on both sides. {them} and you become one as soon as what runs now is done."


def joins_later(them: str, asked: Merge, code: str) -> str:
    at = moment(asked.due_at)
    return (
        f"Confirmed on both sides. You and {them} both have something, so the two are joined at {at}, unless one of "
        f"you objects (`/object {codes.shown(code) if code else ''}`".rstrip()
        + ") or an administrator decides sooner."
    )


def waits_for_admins(asked: Merge, kept: User, absorbed: User) -> str:
    at = moment(asked.due_at)
    return (
        f"{harmless(kept.display_name)} (`{kept.id}`) and {harmless(absorbed.display_name)} (`{absorbed.id}`) have "
        f"confirmed that they are one person. They are joined at {at}; `/admin merge {kept.id} {absorbed.id} --yes` "
        f"does it now, `/admin object {asked.id}` stops it."
    )


def objected(them: str) -> str:
    return f"You and {them} stay two: somebody objected. Nothing was joined."


def unlinked(name: str) -> str:
    return f"`{name}` is no longer you. What was done since you were linked has stayed with you here."


def vouched(words: str, mail: str) -> str:
    return f"{words} This platform vouches that `{mail}` is yours."


def unlinked_there(user: User) -> str:
    return f"You and {harmless(user.display_name)} are two again: the link was taken back."


def cannot_join(why: str) -> str:
    return f"That cannot be done: {why}."


def which_to_unlink(found: list[Known]) -> str:
    lines = "\n".join(f"- `/unlink {one.name}`" for one in found)
    return f"Say which:\n\n{lines}"
