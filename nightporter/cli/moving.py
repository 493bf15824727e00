"""``users export|import|grant|revoke|return``: an agent as a file, and on its way to another installation."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from identity import administration, moves
from identity.administration import AdminRefused
from identity.moves import MoveRefused
from identity.users import User
from nightporter.cli import texts
from nightporter.cli.administering import confirm
from nightporter.errors import CommandError
from nightporter.moving import arriving, departing, installation, tokens
from nightporter.moving import texts as moving_texts
from nightporter.moving.installation import Installation
from nightporter.settings import load
from workspace_store.database import now_us

MOST_GIGABYTES = 1e9
Said = tuple[str, dict[str, Any]]


def export(name: str, file: Path, grant: str, wait: float, *, as_json: bool) -> int:
    def do(house: Installation) -> Said:
        user = _user(house, name)
        if not grant:
            done = departing.copy(house, user, file)
            said = moving_texts.copied(file, sum(done.rows.values()), str(user.id), house.key)
        else:
            done = departing.depart(house, user, file, grant, wait)
            said = moving_texts.departed(file, str(user.id), done.place)
        body = {
            "file": str(file), "user": str(user.id), "users": [str(one) for one in done.owners],
            "rows": dict(done.rows),
            "bundle": str(done.bundle), "installation": house.key, "to": done.place or None,
        }  # fmt: skip
        return said, body

    return _run(do, as_json)


def grant(user: str, source: str, hours: float, place: str, *, as_json: bool) -> int:
    def do(house: Installation) -> Said:
        identifier = _uuid(user)
        key = source.strip().lower()
        if len(key) != 64 or not set(key) <= set("0123456789abcdef"):
            raise MoveRefused("--from is the key of the old installation: 64 hex digits, as `users show` there says")
        if key == house.key:
            raise MoveRefused("--from is the key of this installation: name the one they are to come from")
        try:
            called = tokens.place_name(place or house.place)
        except ValueError as error:
            raise MoveRefused(f"--at: {error}") from error
        until = now_us() + int(hours * 3600 * 1e6)
        made = tokens.Grant(uuid4(), identifier, key, house.key, called, until)
        house.database.write_now(lambda connection: moves.offer(connection, made.id, identifier, key, until))
        code = tokens.make_grant(house.home, made)
        body = {"grant": code, "id": str(made.id), "user": str(identifier), "from": key, "until": until / 1e6}
        return moving_texts.granted(code, str(identifier), hours), body | {"installation": house.key}

    return _run(do, as_json)


def revoke(code: str, *, as_json: bool) -> int:
    def do(house: Installation) -> Said:
        found = tokens.read_grant(code)
        if found.target != house.key:
            raise MoveRefused(f"that grant was made by {found.place}, and only there can it be taken back")
        house.database.write_now(lambda connection: moves.revoke(connection, found.id))
        proof = tokens.make_unused(house.home, found.id)
        return moving_texts.revoked(proof, str(found.user)), {"proof": proof, "user": str(found.user)}

    return _run(do, as_json)


def come_back(name: str, proof: str, *, as_json: bool) -> int:
    def do(house: Installation) -> Said:
        user = _user(house, name)
        arriving.settle_leftovers(house)
        departing.come_back(house, user, proof)
        return moving_texts.returned(str(user.id)), {"user": str(user.id), "returned": True}

    return _run(do, as_json)


def bring(
    file: Path, fork: str, take: Sequence[str], leave: Sequence[str], gigabytes: float, *, yes: bool, as_json: bool
) -> int:
    wanted = arriving.Wanted(file, fork or None, take, leave, int(min(gigabytes, MOST_GIGABYTES) * (1 << 30)))

    def do(house: Installation) -> Said:
        if take and not yes:
            confirm(moving_texts.about_to_take(take))
        done = arriving.arrive(house, wanted)
        body = {
            "user": str(done.user), "was": str(done.was), "fork": done.user != done.was, "bundle": str(done.bundle),
            "from": done.source, "rows": dict(done.rows), "identities": list(done.identities),
        }  # fmt: skip
        return moving_texts.arrived(done), body

    return _run(do, as_json)


def _run(do: Callable[[Installation], Said], as_json: bool) -> int:
    try:
        with installation.opened(load()) as house:
            said, body = do(house)
    except (MoveRefused, AdminRefused) as error:
        raise CommandError(texts.not_done(str(error))) from error
    print(json.dumps(body, ensure_ascii=False) if as_json else texts.plain(said))
    return 0


def _user(house: Installation, name: str) -> User:
    return house.database.read_now(lambda connection: administration.resolve(connection, name)[0])


def _uuid(text: str) -> UUID:
    try:
        return UUID(text.strip())
    except ValueError as error:
        raise MoveRefused(f"{text} is no UUID: `users show` at the old installation says it") from error
