"""``porter-environment check|rebuild``: what another system broke, built anew from ``environment.json``.

What is pure Python is carried over and needs no way out; what is compiled is fetched again in the same version. The old
is removed only once all of it is there anew. What was done is left as a report, which the next answer tells.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys

from .. import state_file
from . import apt, checks, manifest, survey
from .apt_records import META, Records
from .apt_system import Refused
from .checks import Interpreter
from .places import APT, CARGO, NODE_MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

USAGE = "usage: porter-environment check | rebuild\n"
_INSTALL_SECONDS = 1800.0
_OLD = ".before-rebuild"


class Failed(Exception):
    """Why something could not be built anew."""


class Work:
    """What was found and done, in sentences."""

    def __init__(self, home: str, body: dict[str, Any], *, only_look: bool) -> None:
        self.home = home
        self.body = body
        self.only_look = only_look
        self.done: list[str] = []
        self.failed: list[str] = []
        self.pythons = checks.interpreters()

    @property
    def python(self) -> Interpreter:
        """What ``python3`` is now."""
        if not self.pythons:
            raise Failed("there is no Python here now")
        return next(iter(self.pythons.values()))

    @contextlib.contextmanager
    def on(self, what: str, why: str) -> Iterator[bool]:
        """One thing that is broken; whether to build it anew."""
        print(f"broken: {what} ({why})", flush=True)
        try:
            yield not self.only_look
        except (Failed, Refused, OSError) as error:
            print(f"  not rebuilt: {error}", flush=True)
            self.failed.append(f"{what} ({why}): {error}")
        else:
            if self.only_look:
                self.failed.append(f"{what} ({why})")
            else:
                print("  rebuilt", flush=True)
                self.done.append(f"{what} ({why})")


def main(words: list[str], home: str) -> int:
    if not words or words[0] not in ("check", "rebuild") or len(words) > 2:
        sys.stderr.write(USAGE)
        return 2
    folder = f"{home}/.nightporter"
    try:
        body = manifest.load(folder)
    except manifest.Damaged as damage:
        sys.stderr.write(f"porter-environment: {manifest.NAME} cannot be used: {damage}\n")
        return 1
    if body is None:
        print("nothing is installed")
        return 0
    work = Work(home, body, only_look=words[0] == "check")
    for part in (_python, _npm, _apt, _cargo):
        part(work)
    if not work.done and not work.failed:
        print("all that is installed runs")
    if words[0] == "rebuild" and (work.done or work.failed):
        report = {"version": manifest.VERSION, "done": work.done, "failed": work.failed}
        state_file.write(folder, manifest.REPORT, state_file.encode(report))
    return 1 if work.failed else 0


# Python


def _python(work: Work) -> None:
    for place in work.body.get("python", []):
        if os.path.isdir(place["where"]):
            (_user if place["kind"] == "user" else _venv)(work, place)
    if not work.only_look and work.pythons:
        apt.point_python(work.home, f"{work.home}/{APT}")
        _settle_scripts(f"{work.home}/.local/bin", work.python.path)


def _user(work: Work, place: dict[str, Any]) -> None:
    python = work.pythons.get(place["python"])
    if python is not None:
        _reinstall(work, python, place, place["where"], "pip packages")
        return
    if not place["packages"]:
        return
    named = ", ".join([*place["packages"][:5], *(["…"] if len(place["packages"]) > 5 else [])])
    with work.on(f"pip packages: {named}", f"Python {place['python']} is gone") as may:
        if may:
            target = f"{work.home}/.local/lib/python{work.python.version}/site-packages"
            left = _carry(place, place["where"], target, work.python.path)
            _pip(work.python, left, ["--user"])
            shutil.rmtree(os.path.dirname(place["where"]))


def _venv(work: Work, place: dict[str, Any]) -> None:
    folder = place["where"]
    problem = checks.venv_problem(folder)
    if not problem:
        python = checks.interpreter(f"{folder}/bin/python3")
        if python is not None:
            _reinstall(work, python, place, survey.venv_site(folder), f"pip packages of {folder}")
        return
    with work.on(f"the virtual environment {folder}", problem) as may:
        if may:
            _make_again(work, place)


def _make_again(work: Work, place: dict[str, Any]) -> None:
    folder, old = place["where"], place["where"] + _OLD
    shutil.rmtree(old, ignore_errors=True)
    os.rename(folder, old)
    options = [] if place.get("pip") else ["--without-pip"]
    options += ["--system-site-packages"] if place.get("system_packages") else []
    try:
        _run([work.python.path, "-m", "venv", *options, folder], "a virtual environment cannot be made")
    except Failed:
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(old, folder)
        raise
    python = f"{folder}/bin/python3"
    left = _carry(place, survey.venv_site(old), survey.venv_site(folder), python)
    own = work.python if not place.get("pip") else Interpreter(python, work.python.version, [])
    try:
        _pip(own, left, ["--python", python] if not place.get("pip") else [])
    except Failed as error:
        raise Failed(f"{error}; the rest is there, and what was there before is in {old}") from error
    shutil.rmtree(old)


def _reinstall(work: Work, python: Interpreter, place: dict[str, Any], site: str, where: str) -> None:
    """Packages of a Python that is there, whose compiled parts do not load."""
    broken = {_key(name) for name in checks.broken_packages(python, site)}
    wanted = [line for line in place["packages"] if _key(line) in broken]
    if wanted:
        with work.on(f"{where}: {', '.join(wanted)}", "compiled for another system") as may:
            if may:
                own = python if place["kind"] == "user" or place.get("pip") else work.python
                place_options = ["--user"] if place["kind"] == "user" else []
                place_options += ["--python", python.path] if own is not python else []
                _pip(own, wanted, ["--force-reinstall", *place_options])


def _key(line: str) -> str:
    """A package's name, whatever way it is written."""
    return line.partition("==")[0].partition(" @ ")[0].lower().replace("-", "_").replace(".", "_")


def _carry(place: dict[str, Any], old: str, new: str, python: str) -> list[str]:
    """Copy packages that any Python can use; the lines of those that have to be fetched."""
    there = {_key(name.partition("-")[0]) for name in survey._names(new) if name.endswith(".dist-info")}
    infos = {_key(name.partition("-")[0]): name for name in survey._names(old) if name.endswith(".dist-info")}
    left = []
    for line in place["packages"]:
        info = f"{old}/{infos.get(_key(line), '')}"
        if _key(line) in there:
            continue
        if _key(line) not in infos or not checks.is_pure(info):
            left.append(line)
            continue
        for path in checks.record(info):
            _copy(old, new, path, python)
    return left


def _copy(old: str, new: str, path: str, python: str) -> None:
    """One file of a package, within the places that packages have: its site, and ``bin`` three folders above."""
    path = os.path.normpath(path)
    if path.startswith("/") or (path.startswith("..") and not path.startswith(f"..{os.sep}..{os.sep}..{os.sep}bin")):
        return
    source, target = (os.path.normpath(os.path.join(site, path)) for site in (old, new))
    if os.path.isfile(source) and not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    if path.startswith(".."):
        _settle_script(target, python)


def _settle_scripts(folder: str, python: str) -> None:
    for name in survey._names(folder):
        _settle_script(f"{folder}/{name}", python)


def _settle_script(path: str, python: str) -> None:
    """A script whose Python is gone is pointed to the one that is there."""
    try:
        with open(path, "rb") as file:
            first, rest = file.readline(512), file.read()
    except OSError:
        return
    words = first[2:].split()
    if first.startswith(b"#!") and words and b"python" in os.path.basename(words[0]) and not os.path.exists(words[0]):
        with open(path, "wb") as file:
            file.write(b"#!" + os.fsencode(python) + b"\n" + rest)


def _pip(python: Interpreter, lines: list[str], options: list[str]) -> None:
    """Install; all at once, or each by itself where one of them stands in the way. Raises Failed."""
    if not lines:
        return
    pip = [python.path, "-m", "pip"]
    if "--python" in options:
        place = options.index("--python")
        pip += options[place : place + 2]
        options = options[:place] + options[place + 2 :]
    command = [*pip, "install", "--no-input", "--no-deps", "--disable-pip-version-check", *options]
    try:
        _run([*command, *lines], "pip could not install them")
    except Failed:
        problems = []
        for line in lines:
            try:
                _run([*command, line], line)
            except Failed as error:
                problems.append(str(error))
        if problems:
            raise Failed("; ".join(problems)) from None


# npm, apt, cargo


def _npm(work: Work) -> None:
    folder = f"{work.home}/{NODE_MODULES}"
    lines = {line.rpartition("@")[0]: line for line in work.body.get("npm", [])}
    names = [name for name in survey.npm_names(folder) if name in lines]
    for name in checks.broken_npm(folder, names):
        with work.on(f"npm package {lines[name]}", "compiled for another Node") as may:
            if may:
                with contextlib.suppress(Failed):
                    _run(["npm", "rebuild", "-g", name], name)
                if checks.broken_npm(folder, [name]):
                    _run(["npm", "install", "-g", "--force", lines[name]], "npm could not install it")
                if checks.broken_npm(folder, [name]):
                    raise Failed("it does not load after it was installed again")


def _apt(work: Work) -> None:
    root = f"{work.home}/{APT}"
    packages = Records(root).read()
    files = {os.path.join(root, path): package.name for package in packages.values() for path in package.files}
    broken = sorted({files[path] for path in checks.broken_programs(sorted(files))})
    asked = sorted(
        each["package"] for each in work.body.get("apt", []) if each["asked"] and each["package"] in packages
    )
    if broken:
        with work.on(f"Debian packages: {', '.join(broken[:10])}", "their libraries are not there") as may:
            if may:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{root}/{META}/updated")  # lists are of the system before
                apt.install(asked, [], work.home, root, fresh=True)


def _cargo(work: Work) -> None:
    folder = f"{work.home}/{CARGO}/bin"
    broken = checks.broken_programs([f"{folder}/{name}" for name in sorted(survey._names(folder))])
    for line in work.body.get("cargo", []) if broken else []:
        name, _, version = line.partition(" ")
        with work.on(f"cargo's {line}", "its libraries are not there") as may:
            if may:
                _run(["cargo", "install", "--force", "--version", version, name], "cargo could not install it")


def _run(command: list[str], what: str) -> None:
    """Raises Failed with the last of what it said."""
    if shutil.which(command[0]) is None:
        raise Failed(f"{what}: {command[0]} is not here")
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=_INSTALL_SECONDS, cwd="/",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: it took more than {_INSTALL_SECONDS:g} s") from None
    if done.returncode:
        said = [line for line in done.stdout.strip().splitlines() if line.strip()]
        told = next((line for line in said if line.startswith("ERROR")), said[-1] if said else "")
        raise Failed(f"{what}: {told.strip()[:300]}")
