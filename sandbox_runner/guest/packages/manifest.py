"""``environment.json``: what a person has installed below HOME, and on which system.

It lies where anybody inside can write: what is read of it is checked, word by word, before anything is made of it.
"""

from __future__ import annotations

import json
import os
import re
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
NAME = "environment.json"
REPORT = "environment_report.json"
MAX_BYTES = 512 << 10
_MOST = 5000
_LONGEST = 1000

# What goes into command lines of pip, npm, apt and cargo: nothing that they could take for an option or a path.
_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}(?:==[A-Za-z0-9][A-Za-z0-9.!+_-]{0,80}| @ (?:file|https?|git\+https?|git\+file)://\S{1,800})"
)
_NPM = re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]{0,100}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{0,100}@[0-9A-Za-z.+-]{1,80}")
_APT = re.compile(r"[a-z0-9][a-z0-9+.-]{0,100}")
_TOOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100} [0-9A-Za-z.!+_-]{1,80}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Damaged(ValueError):
    """The file is not one that can be used; the text says why."""


def load(folder: str, name: str = NAME) -> dict[str, Any] | None:
    """The checked content; None: there is none. Raises Damaged."""
    try:
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Damaged(f"it cannot be read ({error.strerror})") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise Damaged("it is no file, or too large")
        data = file.read(MAX_BYTES + 1)
    try:
        body = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise Damaged("it is not whole JSON") from None
    if name == NAME:
        check(body)
    return body if isinstance(body, dict) else None


def check(body: Any) -> None:
    """Raises Damaged."""
    if not isinstance(body, dict) or body.get("version") != VERSION or isinstance(body.get("version"), bool):
        raise Damaged(f"it is not of version {VERSION}")
    base = body.get("base")
    if not isinstance(base, dict) or not _DIGEST.fullmatch(str(base.get("digest"))):
        raise Damaged("it does not say on which system it was written")
    for place in _list(body, "python"):
        _check_place(place)
    _all(_list(body, "npm"), _NPM, "npm")
    _all(_list(body, "uv"), _TOOL, "uv")
    _all(_list(body, "cargo"), _TOOL, "cargo")
    for package in _list(body, "apt"):
        if not isinstance(package, dict) or not _APT.fullmatch(str(package.get("package"))):
            raise Damaged("apt names something that is no package")
        if not isinstance(package.get("asked"), bool) or not isinstance(package.get("version"), str):
            raise Damaged("apt has a package without its version")


def _check_place(place: Any) -> None:
    if not isinstance(place, dict) or place.get("kind") not in ("user", "venv"):
        raise Damaged("python names a place of no kind")
    where = place.get("where")
    if not isinstance(where, str) or not where.startswith("/") or len(where) > _LONGEST or "\0" in where:
        raise Damaged("python names a place that is no folder")
    if not isinstance(place.get("python"), str):
        raise Damaged("python does not say for which Python")
    _all(_list(place, "packages"), _REQUIREMENT, "python")


def _list(body: dict[str, Any], key: str) -> list[Any]:
    found = body.get(key, [])
    if not isinstance(found, list) or len(found) > _MOST:
        raise Damaged(f"{key} is no list of at most {_MOST}")
    return found


def _all(words: list[Any], pattern: re.Pattern[str], what: str) -> None:
    for word in words:
        if not isinstance(word, str) or not pattern.fullmatch(word):
            raise Damaged(f"{what} names {str(word)[:60]!r}, which is no package with its version")


def is_requirement(text: str) -> bool:
    return _REQUIREMENT.fullmatch(text) is not None


def is_npm(text: str) -> bool:
    return _NPM.fullmatch(text) is not None


def is_tool(text: str) -> bool:
    return _TOOL.fullmatch(text) is not None
