"""Whether what was installed still runs on the system that is there now: found out by loading it, inside.

Nothing is broken by its version alone: a library is loaded, an interpreter started, a program's needs looked up.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

from .survey import _names, _text

_SECONDS = 120.0
_MOST_FILES = 3000
_BATCH = 60

# Each line in: a file; each line out: one that does not load. The name is said before, since loading may kill.
_LOAD = """
import ctypes, os, sys
for line in sys.stdin:
    path = line.rstrip("\\n")
    print("?", path, flush=True)
    try:
        ctypes.CDLL(path, mode=os.RTLD_LAZY)
        print("+", path, flush=True)
    except OSError:
        print("-", path, flush=True)
"""
_ABOUT = "import json, sys, importlib.machinery as m\n"
_ABOUT += "print(json.dumps(['%d.%d'%sys.version_info[:2],m.EXTENSION_SUFFIXES]))"
_NODE_LOAD = """
const lines = require("fs").readFileSync(0, "utf8").split("\\n").filter(Boolean);
for (const path of lines) {
  console.log("? " + path);
  try { process.dlopen({ exports: {} }, path); console.log("+ " + path); }
  catch (error) { console.log((/did not self-register/.test(error.message) ? "+ " : "- ") + path); }
}
"""


_NODE_MACHINES = {"x86_64": "x64", "aarch64": "arm64", "i686": "ia32", "armv7l": "arm"}


class Interpreter:
    """A Python that runs. ``version``: as ``3.11``."""

    def __init__(self, path: str, version: str, suffixes: list[str]) -> None:
        self.path = path
        self.version = version
        self.suffixes = suffixes


def interpreter(path: str | None) -> Interpreter | None:
    """None where it does not run."""
    said = _run([path, "-I", "-S", "-c", _ABOUT])[1] if path else ""
    try:
        version, suffixes = json.loads(said)
    except ValueError:
        return None
    return Interpreter(str(path), version, suffixes)


def interpreters() -> dict[str, Interpreter]:
    """Of the system, by version; the first is what ``python3`` is."""
    found: dict[str, Interpreter] = {}
    paths = [shutil.which("python3"), "/usr/local/bin/python3", "/usr/bin/python3", "/opt/nightporter/bin/python3"]
    for path in dict.fromkeys(paths):
        each = interpreter(path) if path and os.path.exists(path) else None
        if each is not None:
            found.setdefault(each.version, each)
    return found


def broken_packages(python: Interpreter, site: str) -> list[str]:
    """Names of packages in ``site`` whose compiled parts this Python cannot load."""
    owners = _owners(site)
    wrong = {path for path in owners if _is_for_another(path, python.suffixes)}
    failing = wrong | _fail(_load_in(python), sorted(owners.keys() - wrong))
    found = {}
    for path in sorted(failing):
        name = owners[path]
        if name not in found:
            # What a package loads in an order of its own may fail by itself and yet be well.
            found[name] = path in wrong or not _imports(python, site, path)
    return [name for name, broken in found.items() if broken]


def _load_in(python: Interpreter) -> list[str]:
    return [python.path, "-I", "-S", "-c", _LOAD]


def _owners(site: str) -> dict[str, str]:
    """Compiled file → package, by the packages' own records."""
    found: dict[str, str] = {}
    for info in sorted(_names(site)):
        if info.endswith(".dist-info"):
            name = info.partition("-")[0]
            for path in record(f"{site}/{info}"):
                if re.search(r"\.so(\.\d+)*$", path) and os.path.isfile(f"{site}/{path}"):
                    found[os.path.normpath(f"{site}/{path}")] = name
    return dict(list(found.items())[:_MOST_FILES])


def record(info: str) -> list[str]:
    """Paths of a package's RECORD, relative to its site."""
    lines = _text(f"{info}/RECORD").splitlines()
    return [line.rsplit(",", 2)[0].strip('"') for line in lines if line.count(",") >= 2]


def _is_for_another(path: str, suffixes: list[str]) -> bool:
    name = os.path.basename(path)
    return bool(re.search(r"\.(cpython-3\d+|pypy3\d+)[^.]*\.so$", name)) and not any(map(name.endswith, suffixes))


def _imports(python: Interpreter, site: str, path: str) -> bool:
    module = os.path.relpath(path, site).split(os.sep)[0].partition(".")[0]
    code = "import sys; sys.path.insert(0, sys.argv[1]); __import__(sys.argv[2])"
    return _run([python.path, "-c", code, site, module])[0] == 0


def _fail(loader: list[str], paths: list[str]) -> set[str]:
    """Those of ``paths`` that do not load, or kill who loads them."""
    failing: set[str] = set()
    left = paths
    while left:
        said = _run(loader, "\n".join(left) + "\n")[1]
        answers = {line[2:]: line[0] for line in said.splitlines() if line[1:2] == " "}
        failing |= {path for path in left if answers.get(path, "+") in "-?"}
        rest = [path for path in left if path not in answers]
        if len(rest) == len(left):
            return failing
        left = rest
    return failing


def venv_problem(folder: str) -> str:
    """Why a virtual environment does not run; empty: it does."""
    python = interpreter(f"{folder}/bin/python3") or interpreter(f"{folder}/bin/python")
    if python is None:
        return "its Python is gone"
    versions = [name for name in _names(f"{folder}/lib") if name.startswith("python3.")]
    if versions and f"python{python.version}" not in versions:
        return f"it was made for {versions[0].capitalize()}, and its Python is {python.version} now"
    return ""


def broken_npm(folder: str, names: list[str]) -> list[str]:
    """Global packages of npm with compiled parts that this Node cannot load."""
    files = {path: name for name in names for path in _native(f"{folder}/{name}")}
    prebuilt = [(name, paths) for name in names for paths in _prebuilt(f"{folder}/{name}")]
    node = shutil.which("node") or shutil.which("nodejs")
    if not (files or prebuilt) or node is None:
        return sorted(set(files.values()))
    every = sorted({*files, *(path for _, paths in prebuilt for path in paths)})
    failing = _fail([node, "-e", _NODE_LOAD], every)
    # Of several for one machine (glibc's and musl's, or of Node's versions) the package takes one that fits.
    return sorted(
        {name for path, name in files.items() if path in failing}
        | {name for name, paths in prebuilt if failing.issuperset(paths)}
    )


def _native(folder: str) -> list[str]:
    found: list[str] = []
    for place, _, names in os.walk(folder):
        # Prebuilt ones for other machines lie beside each other in folders of that name.
        if f"{os.sep}prebuilds" not in place:
            found += [os.path.join(place, name) for name in names if name.endswith(".node")]
        if len(found) > _MOST_FILES:
            break
    return found


def _prebuilt(folder: str) -> list[list[str]]:
    """What is in each ``prebuilds`` for this kind of machine, as node-gyp-build and prebuildify name it."""
    machine = os.uname().machine
    here = f"linux-{_NODE_MACHINES.get(machine, machine)}"
    found = []
    for place, _, names in os.walk(folder):
        folder_name = os.path.basename(place)
        if os.path.basename(os.path.dirname(place)) == "prebuilds" and here in folder_name.split("+"):
            paths = [os.path.join(place, name) for name in names if name.endswith(".node")]
            found += [paths] if paths else []
        if len(found) > _MOST_FILES:
            break
    return found


def broken_programs(paths: list[str]) -> list[str]:
    """Programs and libraries whose own libraries, or the versions in them, are not there."""
    elf = [path for path in paths if _is_elf(path)][:_MOST_FILES]
    broken = []
    for start in range(0, len(elf), _BATCH):
        batch = elf[start : start + _BATCH]
        said = _run(["ldd", *batch, "/dev/null"])[1]
        for path, after in zip(batch, [*batch[1:], "/dev/null"]):  # noqa: B905
            if "not found" in said.partition(f"{path}:\n")[2].partition(f"{after}:\n")[0]:
                broken.append(path)
    return broken


def _is_elf(path: str) -> bool:
    try:
        if not os.path.isfile(path) or os.path.islink(path):
            return False
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def is_pure(info: str) -> bool:
    """Whether every Python 3 can use a package as it is."""
    tags = re.findall(r"^Tag: *(\S+)", _text(f"{info}/WHEEL"), re.MULTILINE)
    return bool(tags) and all(re.fullmatch(r"(?:py2\.)?py3-none-any", tag) for tag in tags)


def _run(command: list[str], given: str = "") -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=_SECONDS, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return -1, ""
    return done.returncode, done.stdout
