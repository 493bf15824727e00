"""What is said of moving, to whoever types the commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nightporter.moving.arriving import Arrived


def copied(file: Path, rows: int, user: str, key: str) -> str:
    return (
        f"{file} holds {rows} rows, the blobs and the files, signed. It is a copy: they go on living here, and it can "
        "be brought in elsewhere only as a fork.\n"
        "To move them, have the new installation grant it:\n"
        f"    nightporter users grant {user} --from {key}\n"
        f"and export again with what that prints:\n"
        f"    nightporter users export {user} FILE --grant GRANT"
    )


def departed(file: Path, user: str, place: str) -> str:
    return (
        f"{user} has left for {place}: nobody here acts for them any more. At {place}:\n"
        f"    nightporter users import {file.name}"
    )


def granted(code: str, user: str, hours: float) -> str:
    return (
        f"{user} may come here once, within {hours:g} hours. At the old installation:\n"
        f"    nightporter users export {user} FILE --grant {code}"
    )


def revoked(proof: str, user: str) -> str:
    return (
        f"Nobody comes by that grant any more. If {user} had left already, the old installation takes them back with:\n"
        f"    nightporter users return {user} {proof}"
    )


def returned(user: str) -> str:
    return f"{user} lives here again, as if they had never left."


def about_to_take(identities: Sequence[str]) -> str:
    return f"About to take from whoever has it here: {', '.join(identities)}. Whoever comes by it then is who arrives."


def arrived(done: Arrived) -> str:
    known = ", ".join(done.identities) or "no channel yet: nightporter users link"
    if done.user != done.was:
        return (
            f"{done.user} is a fork of {done.was} as it was at {done.source}: a new person, known here by {known}. "
            "Schedules are paused, and nothing that was open was taken over."
        )
    return f"{done.user} has moved here from {done.source} and is known by {known}."
