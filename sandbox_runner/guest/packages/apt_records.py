"""What ``porter-apt`` has installed: a file for each package, and what apt itself is shown of it.

Read as something that anybody in the sandbox may have written: a record that is wrong is as if it were not there.
"""

from __future__ import annotations

import glob
import json
import os
import re

from .. import state_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

META = ".porter"
SYSTEM_STATUS = "/var/lib/dpkg/status"
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,100}")
_VERSION = re.compile(r"[A-Za-z0-9.+:~-]{1,120}")
_ARCHITECTURE = re.compile(r"[a-z0-9-]{1,30}")
_MOST_BYTES = 8 << 20


class Package:
    """One that is unpacked. ``asked``: by a person, not as something that another needs."""

    def __init__(self, fields: dict[str, str], files: list[str], asked: bool) -> None:
        self.fields = fields
        self.files = files
        self.asked = asked

    @property
    def name(self) -> str:
        return self.fields["Package"]

    @property
    def version(self) -> str:
        return self.fields["Version"]

    @property
    def architecture(self) -> str:
        return self.fields.get("Architecture", "all")

    def stanza(self) -> str:
        """As dpkg would have it in its status file."""
        lines = [f"{name}: {value}" for name, value in self.fields.items() if name not in ("Status", "Conffiles")]
        return "\n".join([lines[0], "Status: install ok installed", *lines[1:]]) + "\n\n"


class Records:
    """All packages below ``root``."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.folder = f"{root}/{META}/packages"

    def read(self) -> dict[str, Package]:
        found = {}
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return {}
        for name in names:
            package = _read(os.path.join(self.folder, name))
            if package is not None and name == f"{package.name}.json":
                found[package.name] = package
        return found

    def write(self, package: Package) -> None:
        body = {"asked": package.asked, "control": package.fields, "files": package.files}
        state_file.write(self.folder, f"{package.name}.json", state_file.encode(body))

    def remove(self, package: Package) -> None:
        """Its files, but for those that another package has too, and the folders they leave empty."""
        shared = {path for each in self.read().values() if each.name != package.name for path in each.files}
        folders = set()
        for path in package.files:
            there = os.path.join(self.root, path)
            if path not in shared and _is_below(self.root, there) and os.path.lexists(there):
                for each in [there, *_compiled(there)]:
                    os.unlink(each)
                    folders.add(os.path.dirname(each))
        for folder in sorted(folders, key=len, reverse=True):
            while folder != self.root:
                try:
                    os.rmdir(folder)
                except OSError:
                    break
                folder = os.path.dirname(folder)
        os.unlink(os.path.join(self.folder, f"{package.name}.json"))


def _compiled(path: str) -> list[str]:
    """What Python made of a module when it was first used."""
    if not path.endswith(".py"):
        return []
    folder, name = map(glob.escape, os.path.split(path))
    return glob.glob(f"{folder}/__pycache__/{name[:-3]}.*.pyc")


def _is_below(root: str, path: str) -> bool:
    """Whether a path of a record leads nowhere else, by its words or by a link on its way."""
    real = os.path.realpath(os.path.dirname(path))
    return os.path.commonpath([os.path.realpath(root), real]) == os.path.realpath(root) and not path.endswith("..")


def _read(path: str) -> Package | None:
    try:
        if os.stat(path, follow_symlinks=False).st_size > _MOST_BYTES:
            return None
        with open(path, encoding="utf-8") as file:
            body: Any = json.load(file)
        fields, files = body["control"], body["files"]
        good = all(isinstance(each, str) for each in [*fields, *fields.values(), *files])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not good or not is_name(fields.get("Package", "")) or not _VERSION.fullmatch(fields.get("Version", "")):
        return None
    if not _ARCHITECTURE.fullmatch(fields.get("Architecture", "all")):
        return None
    return Package(fields, files, body.get("asked") is True)


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None
