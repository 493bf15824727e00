"""Unpacking a Debian package below HOME as if that were ``/``, and making what is in it work there.

Its maintainer scripts are never run: they expect to be root on a system that can be written. What most of them do is
to register alternatives, and that is done here; libraries need no ``ldconfig``, since LD_LIBRARY_PATH names them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import stat
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PC_PATH = re.compile(r"^(\w+=)/usr(?=/|$)", re.MULTILINE)
_LONGEST_FIRST_LINE = 256


class Unusable(Exception):
    """The package cannot be unpacked; the text says why."""


def control(deb: str) -> dict[str, str]:
    """Its control fields; continuation lines joined."""
    fields: dict[str, str] = {}
    name = ""
    for line in _run(["dpkg-deb", "-f", deb]).splitlines():
        if line[:1].isspace():
            fields[name] += "\n" + line
        else:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    if not fields.get("Package") or not fields.get("Version"):
        raise Unusable(f"{os.path.basename(deb)} is not a Debian package")
    return fields


def unpack(deb: str, root: str, staging: str) -> list[str]:
    """Put its files below ``root``; their paths in it. Raises Unusable, OSError."""
    shutil.rmtree(staging, ignore_errors=True)
    os.makedirs(staging)
    try:
        _run(["dpkg-deb", "-x", deb, f"{staging}/files"])
        _run(["dpkg-deb", "-e", deb, f"{staging}/control"])
        placed = _place(f"{staging}/files", root)
        with (
            contextlib.suppress(FileNotFoundError),
            open(f"{staging}/control/postinst", encoding="utf-8", errors="replace") as script,
        ):
            placed += _alternatives(script.read(), root)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return placed


def settle(paths: list[str], root: str) -> None:
    """What can only be right once everything is in its place: links, interpreters, where libraries say they are."""
    for path in paths:
        there = os.path.join(root, path)
        if os.path.islink(there):
            _settle_link(there, root)
        elif path.endswith(".pc"):
            _rewrite(there, lambda text: _PC_PATH.sub(rf"\1{root}/usr", text))
        elif os.path.basename(os.path.dirname(path)) in ("bin", "sbin", "games"):
            _settle_interpreter(there, root)


def _place(source: str, root: str) -> list[str]:
    placed = []
    for folder, folders, files in os.walk(source):
        relative = os.path.relpath(folder, source)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*files, *links]:
            path = inside(os.path.normpath(os.path.join(relative, name)))
            target = os.path.join(root, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(target) and not os.path.islink(target):
                continue  # a link to a folder where another package has the folder itself
            os.replace(os.path.join(folder, name), target)
            if not os.path.islink(target):
                os.chmod(target, stat.S_IMODE(os.lstat(target).st_mode) & 0o777 | stat.S_IWUSR)
            placed.append(path)
    return placed


def inside(path: str) -> str:
    """``bin/x`` is ``usr/bin/x``, as on every merged system."""
    path = path.lstrip("/")
    return f"usr/{path}" if path.split("/")[0] in _MERGED else path


def _alternatives(script: str, root: str) -> list[str]:
    """Links that ``update-alternatives --install LINK NAME PATH PRIORITY`` would make, and those of its ``--slave``."""
    placed = []
    for line in script.replace("\\\n", " ").splitlines():
        if "update-alternatives" not in line or "$" in line:
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        for place, word in enumerate(words):
            if word not in ("--install", "--slave") or len(words) < place + 4:
                continue
            link, target = inside(words[place + 1]), inside(words[place + 3])
            there = os.path.join(root, link)
            if os.path.exists(os.path.join(root, target)) and not os.path.lexists(there):
                os.makedirs(os.path.dirname(there), exist_ok=True)
                os.symlink(os.path.relpath(os.path.join(root, target), os.path.dirname(there)), there)
                placed.append(link)
    return placed


def _settle_link(link: str, root: str) -> None:
    target = os.readlink(link)
    ours = os.path.join(root, inside(target))
    if target.startswith("/") and os.path.lexists(ours):
        os.unlink(link)
        os.symlink(os.path.relpath(ours, os.path.dirname(link)), link)


def _settle_interpreter(path: str, root: str) -> None:
    """A script whose interpreter came with a package is pointed to it."""
    try:
        with open(path, "rb") as file:
            first = file.readline(_LONGEST_FIRST_LINE)
    except OSError:
        return
    interpreter = first[2:].split()[:1] if first.startswith(b"#!") else []
    if not interpreter or os.path.exists(interpreter[0]):
        return
    ours = os.path.join(root, inside(os.fsdecode(interpreter[0])))
    if os.path.exists(ours):
        named = os.fsdecode(interpreter[0])
        _rewrite(path, lambda text: text.replace(named, ours, 1))


def _rewrite(path: str, change: Callable[[str], str]) -> None:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    changed = change(text)
    if changed != text:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(changed)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise Unusable(f"{os.path.basename(command[2])} cannot be unpacked: {said}")
    return done.stdout
