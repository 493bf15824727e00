"""``porter-apt install|remove|list|update``: Debian packages without root, unpacked below ``~/.local/apt``.

apt resolves, fetches and verifies; the files are unpacked beside the read-only system, which stays as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys

from .. import state_file
from . import deb
from .apt_records import META, Package, Records, is_name
from .apt_system import LISTS_SECONDS, AptSystem, Refused, Step, essential
from .places import APT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE = """\
usage: porter-apt install PACKAGE… | FILE.deb…    unpack below ~/.local/apt what they are and what they need
       porter-apt remove PACKAGE…                 and what only they needed
       porter-apt list [--json]                   what is there
       porter-apt update                          fetch the package lists anew
"""
_SYSTEM_PYTHON = "/usr/bin/python3"
_OLD_SECONDS = 300.0


def main(words: list[str], home: str) -> int:
    commands = {"install": _install, "remove": _remove, "list": _list, "update": _update}
    if not words or words[0] not in commands:
        (sys.stdout if words[:1] in (["--help"], ["-h"]) else sys.stderr).write(USAGE)
        return 0 if words[:1] in (["--help"], ["-h"]) else 2
    root = f"{home}/{APT}"
    try:
        with _alone(root):
            commands[words[0]](words[1:], home, root)
    except Refused as error:
        sys.stderr.write(f"porter-apt: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"porter-apt: {error.strerror}: {error.filename or root}\n")
        return 1
    return 0


@contextlib.contextmanager
def _alone(root: str) -> Iterator[None]:
    """One at a time."""
    os.makedirs(f"{root}/{META}", exist_ok=True)
    with open(f"{root}/{META}/lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(words: list[str], home: str, root: str) -> None:
    files = [os.path.abspath(word) for word in words if word.endswith(".deb")]
    names = [word for word in words if not word.endswith(".deb")]
    _check_names(names)
    for file in files:
        if not os.path.isfile(file):
            raise Refused(f"there is no file {file}")
    if not names and not files:
        raise Refused("name the packages to install")
    install(names, files, home, root)


def install(names: list[str], files: list[str], home: str, root: str, *, fresh: bool = False) -> list[Package]:
    """Install packages and ``.deb`` files; what was unpacked. ``fresh``: in place of all there is. Raises Refused."""
    records = Records(root)
    before = {} if fresh else records.read()
    apt = AptSystem(home, root)
    apt.prepare(before)
    if names and apt.lists_age() > LISTS_SECONDS:
        _fetch_lists(apt)
    steps = _plan(apt, ["install", *names, *files], names)
    _check_steps(steps, before)
    fetched = [step for step in steps if step.version and step.version != _version_of(files, step.name)]
    debs = [*files, *(apt.download(fetched) if fetched else [])]
    asked = {name.partition("=")[0] for name in names} | {deb.control(file)["Package"] for file in files}
    if fresh:
        for package in records.read().values():
            records.remove(package)
    done = _unpack(debs, asked, steps, before, records)
    apt.forget_downloads()
    for name in asked & before.keys() - {package.name for package in done}:
        before[name].asked = True
        records.write(before[name])
    point_python(home, root)
    if not done:
        print("nothing to do: it is there already")
    for package in done:
        print(f"unpacked {package.name} {package.version}")
    return done


def _plan(apt: AptSystem, words: list[str], names: list[str]) -> list[Step]:
    """With lists that are not of this minute, what apt does not find may be there by now."""
    try:
        return apt.plan(words)
    except Refused:
        if not names or apt.lists_age() < _OLD_SECONDS:
            raise
    _fetch_lists(apt)
    return apt.plan(words)


def _fetch_lists(apt: AptSystem) -> None:
    """With those of some sources missing, one goes on with the others."""
    if problem := apt.update():
        sys.stderr.write(f"porter-apt: {problem}\n")


def _check_names(names: list[str]) -> None:
    for name in names:
        bare, equals, version = name.partition("=")
        if not is_name(bare.partition(":")[0]) or (equals and (not version or version.startswith("-"))):
            raise Refused(f"{name!r} is not the name of a package")


def _check_steps(steps: list[Step], ours: dict[str, Package]) -> None:
    base = essential()
    for step in steps:
        if step.name in ours:
            continue
        if step.version is None:
            raise Refused(f"it conflicts with {step.name}, which belongs to the read-only system")
        if step.before and step.name in base:
            raise Refused(
                f"it needs {step.name} {step.version}; the read-only system has {step.before}, "
                "and two of them cannot be beside each other"
            )


def _version_of(files: list[str], name: str) -> str | None:
    for file in files:
        fields = deb.control(file)
        if fields["Package"] == name:
            return fields["Version"]
    return None


def _unpack(
    debs: list[str], asked: set[str], steps: list[Step], before: dict[str, Package], records: Records
) -> list[Package]:
    for step in steps:
        if step.version is None and step.name in before:
            records.remove(before[step.name])
    done = []
    for file in debs:
        try:
            fields = deb.control(file)
            old = before.get(fields["Package"])
            if old is not None:
                records.remove(old)
            placed = deb.unpack(file, records.root, f"{records.root}/{META}/staging")
        except deb.Unusable as error:
            raise Refused(str(error)) from error
        package = Package(fields, placed, fields["Package"] in asked or (old is not None and old.asked))
        records.write(package)
        done.append(package)
    for package in done:
        deb.settle(package.files, records.root)
    return done


def _remove(words: list[str], home: str, root: str) -> None:
    _check_names(words)
    records = Records(root)
    before = records.read()
    for name in words or ["(none)"]:
        if name not in before:
            raise Refused(f"{name} is not among what porter-apt installed (porter-apt list)")
    apt = AptSystem(home, root)
    apt.prepare(before)
    for step in apt.plan(["remove", "--auto-remove", *words]):
        if step.name in before:
            records.remove(before[step.name])
            print(f"removed {step.name} {before[step.name].version}")
    point_python(home, root)


def _list(words: list[str], home: str, root: str) -> None:
    packages = Records(root).read().values()
    if words == ["--json"]:
        told = [
            {"package": each.name, "version": each.version, "architecture": each.architecture, "asked": each.asked}
            for each in packages
        ]
        print(json.dumps(told))
        return
    for each in packages:
        print(f"{each.name} {each.version} {each.architecture}" + ("" if each.asked else " (needed by another)"))


def _update(words: list[str], home: str, root: str) -> None:
    apt = AptSystem(home, root)
    apt.prepare(Records(root).read())
    if problem := apt.update():
        raise Refused(problem)
    print("package lists fetched")


def point_python(home: str, root: str) -> None:
    """Let the system's own Python find modules of packages: by a ``.pth`` file, which no virtual environment reads.

    PYTHONPATH would show them to every Python there is, and to pip in every virtual environment as installed.
    """
    version = os.path.basename(os.path.realpath(_SYSTEM_PYTHON))
    modules = f"{root}/usr/lib/python3/dist-packages"
    folder = f"{home}/.local/lib/{version}/site-packages"
    pointer = f"{folder}/porter-apt.pth"
    if os.path.isdir(modules) and version.startswith("python3."):
        os.makedirs(folder, exist_ok=True)
        state_file.write(folder, "porter-apt.pth", f"{modules}\n".encode())
    elif os.path.lexists(pointer):
        os.unlink(pointer)
