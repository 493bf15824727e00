"""``/admin …``: for administrators only, answered in private. ``nightporter users`` does the same."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from sqlalchemy import Connection

from identity import administration, merging, pairing, users
from identity.administration import AdminRefused
from identity.names import harmless
from router import admin_texts as texts
from router import joining, strangers
from router.commands.command import Asked, Command, Said

PAGE = 20
YES = "--yes"

Do = Callable[[Connection, Asked, list[str]], "str | Said"]


def _admin(connection: Connection, asked: Asked) -> str | Said:
    if asked.user.role != "admin":
        return texts.ONLY_ADMINS
    verb, *words = asked.rest.split() or ["help"]
    do = VERBS.get(verb.lower())
    if do is None:
        return texts.no_such(verb)
    try:
        return do[1](connection, asked, words) if len(words) >= do[0] else texts.HELP
    except AdminRefused as error:
        return texts.refused(str(error))


def _help(connection: Connection, asked: Asked, words: list[str]) -> str:
    return texts.HELP


def _users(connection: Connection, asked: Asked, words: list[str]) -> str:
    after = administration.resolve(connection, words[0])[0] if words else None
    page = users.page(connection, after, PAGE)
    lines = [texts.line(user, users.identities(connection, user.id)) for user in page]
    lines += [] if words else [texts.waits(found) for found in pairing.waiting(connection)]
    return "\n".join(lines) + (texts.more(page[-1]) if len(page) == PAGE else "")


def _show(connection: Connection, asked: Asked, words: list[str]) -> str:
    user, _ = administration.resolve(connection, words[0])
    return texts.show(administration.details(connection, user))


def _approve(connection: Connection, asked: Asked, words: list[str]) -> Said:
    found = administration.waiting(connection, words[0])
    user = pairing.approve(connection, found, asked.user.id)
    strangers.welcome(connection, found, user)
    strangers.settled(connection, found, user, harmless(asked.user.display_name))
    return Said(texts.let_in(user))


def _refuse(connection: Connection, asked: Asked, words: list[str]) -> Said:
    found = administration.waiting(connection, words[0])
    pairing.refuse(connection, found, asked.user.id)
    strangers.settled(connection, found, None, harmless(asked.user.display_name))
    return Said(texts.turned_away(found))


def _link(connection: Connection, asked: Asked, words: list[str]) -> str:
    user, _ = administration.resolve(connection, words[0])
    return texts.linked(user, administration.link(connection, user, words[1], asked.user.id))


def _unlink(connection: Connection, asked: Asked, words: list[str]) -> str:
    return texts.unlinked(*administration.unlink(connection, words[0], asked.user.id))


def _merge(connection: Connection, asked: Asked, words: list[str]) -> str | Said:
    """With whole names it is done and shown; what was completed is shown first, to be confirmed."""
    names = [word for word in words if word != YES]
    if len(names) != 2:
        return texts.HELP
    (kept, guessed), (absorbed, guessed_too) = (administration.resolve(connection, name) for name in names)
    plan = administration.plan(connection, kept, absorbed)
    if (guessed or guessed_too) and YES not in words:
        value = f"/admin merge {kept.id} {absorbed.id} {YES}"
        return Said(texts.confirm(plan), ({"action": "say", "value": value, "label": texts.MERGE},))
    done = administration.merge(connection, kept, absorbed, asked.user.id)
    joining.make_findable(connection, done)
    return f"{texts.plan(plan)}\n\n{texts.merged(done)}"


def _unmerge(connection: Connection, asked: Asked, words: list[str]) -> str:
    user, _ = administration.resolve(connection, words[0])
    return texts.unmerged(administration.unmerge(connection, user, asked.user.id))


def _object(connection: Connection, asked: Asked, words: list[str]) -> str:
    try:
        found = merging.get(connection, UUID(words[0].strip("`")))
    except ValueError:
        found = None
    if found is None or found.state != "waiting":
        raise AdminRefused("no such merge waits")
    merging.object_to(connection, found, asked.user.id)
    joining.tell_objected(connection, found)
    return texts.refused("the merge is stopped, and both are told")


def _role(connection: Connection, asked: Asked, words: list[str]) -> str:
    user, _ = administration.resolve(connection, words[0])
    administration.set_role(connection, user, words[1].lower(), asked.user.id)
    return texts.role(user, words[1].lower())


def _block(connection: Connection, asked: Asked, words: list[str]) -> str:
    user, _ = administration.resolve(connection, words[0])
    administration.block(connection, user, asked.user.id)
    return texts.blocked(user)


def _unblock(connection: Connection, asked: Asked, words: list[str]) -> str:
    user, _ = administration.resolve(connection, words[0])
    administration.unblock(connection, user, asked.user.id)
    return texts.unblocked(user)


VERBS: dict[str, tuple[int, Do]] = {
    "help": (0, _help),
    "users": (0, _users),
    "show": (1, _show),
    "approve": (1, _approve),
    "refuse": (1, _refuse),
    "link": (2, _link),
    "unlink": (1, _unlink),
    "merge": (2, _merge),
    "unmerge": (1, _unmerge),
    "object": (1, _object),
    "role": (2, _role),
    "block": (1, _block),
    "unblock": (1, _unblock),
}
"""How many words each takes at least, and what it does."""

COMMANDS = {"admin": Command("administers users: `/admin help`", _admin)}
