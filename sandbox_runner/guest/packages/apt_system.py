"""apt as it is inside: its own programs, with lists, cache and state below HOME, and the system's packages to build on.

It is only ever asked what to do and told to download; nothing here lets it change anything.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import subprocess
import time

from .apt_records import META, SYSTEM_STATUS, Package

OWN_SOURCES = ".config/porter-apt"
LISTS_SECONDS = 24 * 3600.0
_TRUST_BUNDLE = "/run/nightporter/ca-bundle.crt"
_STEP = re.compile(r"(Inst|Remv) (\S+?)(?::\S+)? (?:\[(\S+)\] ?)?(?:\((\S+) [^)]*?(?:\[([a-z0-9-]+)\])?\))?")


class Refused(Exception):
    """What a person asked for cannot be done; the text says why, and what would help."""


class Step:
    """One thing apt would do. ``before``: the version that is there now; ``version`` None: remove it."""

    def __init__(self, name: str, before: str | None, version: str | None, architecture: str) -> None:
        self.name = name
        self.before = before
        self.version = version
        self.architecture = architecture

    @property
    def spec(self) -> str:
        """As ``apt-get download`` is told."""
        return f"{self.name}={self.version}"


class AptSystem:
    """apt, with everything of its own below ``root``."""

    def __init__(self, home: str, root: str) -> None:
        self._home = home
        self._meta = f"{root}/{META}"
        self._lists = f"{self._meta}/lists"
        for program in ("apt-get", "dpkg-deb"):
            if shutil.which(program) is None:
                raise Refused(f"the system in this sandbox has no {program}: it is not a Debian or Ubuntu")
        if not os.path.exists(SYSTEM_STATUS):
            raise Refused(f"the system in this sandbox does not say what is installed ({SYSTEM_STATUS} is missing)")

    def prepare(self, packages: dict[str, Package]) -> None:
        """Show apt the system's packages and ours as installed."""
        for folder in (f"{self._lists}/partial", f"{self._meta}/cache/archives/partial", f"{self._meta}/etc"):
            os.makedirs(folder, exist_ok=True)
        own = [stanza for stanza in _stanzas(SYSTEM_STATUS) if _name_of(stanza) not in packages]
        with open(f"{self._meta}/status", "w", encoding="utf-8") as file:
            file.writelines(own)
            file.writelines(package.stanza() for package in packages.values())
        with open(f"{self._meta}/extended_states", "w", encoding="utf-8") as file:
            for package in packages.values():
                if not package.asked:
                    file.write(f"Package: {package.name}\nArchitecture: {_native(package)}\nAuto-Installed: 1\n\n")
        with open(f"{self._meta}/apt.conf", "w", encoding="utf-8") as file:
            file.write("".join(f'{name} "{value}";\n' for name, value in self._settings().items()))

    def _settings(self) -> dict[str, str]:
        own = f"{self._home}/{OWN_SOURCES}"
        has_own = bool(glob.glob(f"{own}/*.list") + glob.glob(f"{own}/*.sources"))
        settings = {
            "Dir::State": self._meta,
            "Dir::State::status": f"{self._meta}/status",
            "Dir::State::extended_states": f"{self._meta}/extended_states",
            "Dir::State::lists": self._lists,
            "Dir::Cache": f"{self._meta}/cache",
            "Dir::Log": f"{self._meta}/log",
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::parts": "/dev/null",
            "Dir::Etc::sourcelist": "/dev/null" if has_own else "/etc/apt/sources.list",
            "Dir::Etc::sourceparts": own if has_own else "/etc/apt/sources.list.d",
            "Debug::NoLocking": "true",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "",
            "APT::Get::Show-User-Simulation-Note": "false",
        }
        if os.path.exists(_TRUST_BUNDLE):
            settings["Acquire::https::CAInfo"] = _TRUST_BUNDLE
        return settings

    def has_sources(self) -> bool:
        places = (f"{self._home}/{OWN_SOURCES}/*", "/etc/apt/sources.list", "/etc/apt/sources.list.d/*")
        return any(os.path.isfile(path) and os.path.getsize(path) for each in places for path in glob.glob(each))

    def lists_age(self) -> float:
        """Seconds since the package lists were fetched; infinite if they never were."""
        try:
            return time.time() - os.stat(f"{self._meta}/updated").st_mtime
        except OSError:
            return float("inf")

    def update(self) -> str:
        """Fetch the package lists; what of them could not be. Raises Refused where there are none then."""
        if not self.has_sources():
            raise Refused(f"no package sources are known here: write a sources.list into ~/{OWN_SOURCES}/")
        done = self._apt(["update"])
        if done.returncode or "Failed to fetch" in done.stderr:
            said = self._explained("the package lists could not be fetched", done)
            if not glob.glob(f"{self._lists}/*Packages*"):
                raise Refused(said)
            return said
        with open(f"{self._meta}/updated", "w", encoding="utf-8"):
            os.utime(f"{self._meta}/updated")
        return ""

    def plan(self, words: list[str]) -> list[Step]:
        """What ``apt-get WORDS`` would do. Raises Refused with apt's reason."""
        done = self._apt(["-s", "-y", "--no-install-recommends", *words])
        if done.returncode:
            raise Refused(self._explained(f"{' '.join(words[:1])} is not possible", done))
        steps = []
        for match in map(_STEP.match, done.stdout.splitlines()):
            if match:
                kind, name, before, version, architecture = match.groups()
                steps.append(Step(name, before, None if kind == "Remv" else version, architecture or "all"))
        return steps

    def download(self, steps: list[Step]) -> list[str]:
        """Fetch and verify; the packages' files. Raises Refused."""
        folder = f"{self._meta}/fetched"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        done = self._apt(["download", *(step.spec for step in steps)], cwd=folder)
        if done.returncode:
            raise Refused(self._explained("the packages could not be fetched", done))
        return sorted(glob.glob(f"{folder}/*.deb"))

    def forget_downloads(self) -> None:
        shutil.rmtree(f"{self._meta}/fetched", ignore_errors=True)

    def _apt(self, words: list[str], cwd: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "APT_CONFIG": f"{self._meta}/apt.conf", "LC_ALL": "C.UTF-8"}
        # Of packages that it is about to replace, for instance.
        environment.pop("LD_LIBRARY_PATH", None)
        command = ["apt-get", *words]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, cwd=cwd)

    def _explained(self, what: str, done: subprocess.CompletedProcess[str]) -> str:
        """apt's own words, without its progress; and what a refusal of the way out means."""
        lines = (done.stdout + "\n" + done.stderr).splitlines()
        # The line after "Err:" has the reason, indented.
        reasons = [after.strip() for line, after in zip(lines, lines[1:]) if line.startswith("Err:")]  # noqa: B905, RUF007
        unmet = [line.strip() for line in done.stdout.partition("have unmet dependencies:")[2].splitlines()]
        said = [line[3:] for line in lines if line.startswith("E: ")]
        found = list(dict.fromkeys(filter(None, [*reasons, *unmet, *said]))) or [
            f"apt-get ended with {done.returncode}"
        ]
        text = "\n  ".join([f"{what}:", *found[:12]])
        if any(word in text for word in ("403", "is not on the list", "407")):
            text += "\n(The way out of this sandbox did not let it through: say /egress, or allow the host.)"
        return text


def _stanzas(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return [f"{stanza.strip()}\n\n" for stanza in file.read().split("\n\n") if stanza.strip()]


def _name_of(stanza: str) -> str:
    return stanza.partition("\n")[0].partition(":")[2].strip()


def essential(path: str = SYSTEM_STATUS) -> set[str]:
    """Packages that everything in the system builds on; another version of them beside it would break it."""
    found = {"libc6", "libc-bin"}
    with contextlib.suppress(OSError):
        found |= {_name_of(stanza) for stanza in _stanzas(path) if "\nEssential: yes\n" in stanza}
    return found


def _native(package: Package) -> str:
    if package.architecture != "all":
        return package.architecture
    done = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True)
    return done.stdout.strip() or "amd64"
