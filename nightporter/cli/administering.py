"""``users``: what ``/admin`` does in chat, as the one who runs this machine; shown before it is done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection

from identity import administration, pairing, users
from identity.administration import AdminRefused, Details
from identity.users import User
from nightporter import signing
from nightporter.cli import texts, wiring
from nightporter.errors import CommandError
from nightporter.settings import load
from router import admin_texts, joining, strangers

Done = tuple[str, dict[str, Any]]


def listed(after: str, limit: int, *, as_json: bool) -> int:
    """Users, then strangers who wait; with ``--json`` an object a line."""

    def query(connection: Connection) -> list[Done]:
        last = administration.resolve(connection, after)[0] if after else None
        rows: list[Done] = []
        for user in users.page(connection, last, limit):
            known = users.identities(connection, user.id)
            rows.append((admin_texts.line(user, known), _user(user, [one.name for one in known])))
        for found in [] if after else pairing.waiting(connection):
            claim = found.claim
            body: dict[str, Any] = {"waiting": found.code, "channel": claim.channel, "external_id": claim.external_id}
            body |= {"display_name": claim.display, "expires_at": found.expires_at / 1e6}
            rows.append((admin_texts.waits(found), body))
        return rows

    return _print(_asked(query, "read_now"), as_json=as_json)


def shown(name: str, *, as_json: bool) -> int:
    """All there is to say of a user."""

    def query(connection: Connection) -> list[Done]:
        found = administration.details(connection, administration.resolve(connection, name)[0])
        said = f"{admin_texts.show(found)}\n- {texts.installation(key)}"
        return [(said, _details(found) | {"installation": key})]

    key = signing.public_key(load().home)
    return _print(_asked(query, "read_now"), as_json=as_json)


def do(verb: str, words: Sequence[str], *, yes: bool, as_json: bool) -> int:
    """Show what would be done, have it confirmed, and do it."""
    if not yes:
        confirm(_asked(lambda connection: _plan(connection, verb, words), "read_now"))
    said, body = _asked(lambda connection: VERBS[verb](connection, *words), "write_now")
    return _print([(said, {"said": said, **body})], as_json=as_json)


def _plan(connection: Connection, verb: str, words: Sequence[str]) -> str:
    if verb == "merge":
        kept, absorbed = (administration.resolve(connection, name)[0] for name in words)
        return admin_texts.plan(administration.plan(connection, kept, absorbed))
    if verb == "unlink":
        return texts.about_to(verb, words[0])
    user, _ = administration.resolve(connection, words[0])
    known = users.identities(connection, user.id)
    return texts.about_to(" ".join([verb, *words[1:]]), admin_texts.line(user, known).removeprefix("- "))


def confirm(plan: str) -> None:
    """Raises CommandError where nobody says yes."""
    print(texts.plain(plan), file=sys.stderr)
    if not sys.stdin.isatty():
        raise CommandError(texts.not_confirmed())
    print(texts.sure(), end=" ", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError(texts.left_as_it_is())


def _asked(query: Callable[[Connection], Any], door: str) -> Any:
    def run(connection: Any, _: Any) -> Any:
        return query(connection)

    try:
        return wiring.run(load(), run, None, door)
    except AdminRefused as error:
        raise CommandError(texts.not_done(str(error))) from error


def _approve(connection: Connection, code: str) -> Done:
    found = administration.waiting(connection, code)
    user = pairing.approve(connection, found, None)
    strangers.welcome(connection, found, user)
    strangers.settled(connection, found, user, "")
    return admin_texts.let_in(user), _user(user, [])


def _refuse(connection: Connection, code: str) -> Done:
    found = administration.waiting(connection, code)
    pairing.refuse(connection, found, None)
    strangers.settled(connection, found, None, "")
    return admin_texts.turned_away(found), {"refused": code}


def _link(connection: Connection, name: str, identity: str) -> Done:
    user, _ = administration.resolve(connection, name)
    known = administration.link(connection, user, identity, None)
    return admin_texts.linked(user, known), {"user": str(user.id), "identity": known.name}


def _unlink(connection: Connection, identity: str) -> Done:
    user, known = administration.unlink(connection, identity, None)
    return admin_texts.unlinked(user, known), {"user": str(user.id), "identity": known.name}


def _merge(connection: Connection, keep: str, absorb: str) -> Done:
    kept, absorbed = (administration.resolve(connection, name)[0] for name in (keep, absorb))
    done = administration.merge(connection, kept, absorbed, None)
    joining.make_findable(connection, done)
    body = {"kept": str(done.kept), "absorbed": str(done.absorbed), "state": done.state, "folder": done.folder}
    return admin_texts.merged(done, f"{texts.program()} users"), body


def _unmerge(connection: Connection, name: str) -> Done:
    user, _ = administration.resolve(connection, name)
    undone = administration.unmerge(connection, user, None)
    return admin_texts.unmerged(undone), {"kept": str(undone.kept), "absorbed": str(undone.absorbed)}


def _role(connection: Connection, name: str, role: str) -> Done:
    user, _ = administration.resolve(connection, name)
    administration.set_role(connection, user, role, None)
    return admin_texts.role(user, role), {"user": str(user.id), "role": role}


def _block(connection: Connection, name: str) -> Done:
    user, _ = administration.resolve(connection, name)
    administration.block(connection, user, None)
    return admin_texts.blocked(user), {"user": str(user.id), "blocked": True}


def _unblock(connection: Connection, name: str) -> Done:
    user, _ = administration.resolve(connection, name)
    administration.unblock(connection, user, None)
    return admin_texts.unblocked(user), {"user": str(user.id), "blocked": False}


VERBS: dict[str, Callable[..., Done]] = {
    "approve": _approve,
    "refuse": _refuse,
    "link": _link,
    "unlink": _unlink,
    "merge": _merge,
    "unmerge": _unmerge,
    "role": _role,
    "block": _block,
    "unblock": _unblock,
}


def _user(user: User, known: list[str]) -> dict[str, Any]:
    return {
        "id": str(user.id),
        "display_name": user.display_name,
        "role": user.role,
        "blocked": user.blocked,
        "moved_to": user.moved_to,
        "merged_into": str(user.merged_into) if user.merged_into else None,
        "created_at": user.created_at / 1e6,
        "identities": known,
    }


def _details(found: Details) -> dict[str, Any]:
    return {
        **_user(found.user, [one.name for one in found.identities]),
        "holdings": found.holdings.__dict__,
        "absorbed": [{"user": str(user), "folder": folder} for user, folder in found.absorbed],
        "events": [
            {
                "number": event.number,
                "at": event.at / 1e6,
                "actor": str(event.actor) if event.actor else None,
                "kind": event.kind,
                "detail": event.detail,
            }
            for event in found.events
        ],
    }


def _print(rows: list[Done], *, as_json: bool) -> int:
    for said, body in rows:
        line = json.dumps(body, ensure_ascii=False, default=str) if as_json else texts.plain(said)
        sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")
    return 0
