"""What is installed below HOME, read from the files that package managers leave: none of them is run for it.

It is a program of its own, so that nothing waits for it; what it prints is put into ``environment.json`` by the guest.
"""

from __future__ import annotations

import json
import os
import re
from urllib.parse import urlsplit

from ..secret_filter import holds_secret
from . import manifest
from .apt_records import Records
from .places import APT, CARGO, NODE_MODULES, USER_LIBRARIES, UV_TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_DEPTH = 4
_FOLDERS = 5000
_HIDDEN = (".venv", ".virtualenvs", ".venvs", ".env", ".local", "share", "pipx")
_NOT_INTO = ("node_modules", "site-packages", "__pycache__", "merged")
_METADATA_BYTES = 1 << 20


def survey(home: str, workspace: str) -> dict[str, Any]:
    """The parts of ``environment.json`` but for ``version`` and ``base``."""
    not_kept: list[str] = []
    places = [_user_place(folder, not_kept) for folder in user_sites(home)]
    places += [_venv_place(folder, not_kept) for folder in venvs(home, workspace)]
    return {
        "python": [place for place in places if place["packages"] or place["kind"] == "venv"],
        "npm": npm(home),
        "apt": [
            {"package": each.name, "version": each.version, "architecture": each.architecture, "asked": each.asked}
            for each in Records(f"{home}/{APT}").read().values()
        ],
        "uv": uv_tools(home),
        "cargo": cargo(home),
        "not_kept": sorted(set(not_kept)),
    }


def user_sites(home: str) -> list[str]:
    libraries = f"{home}/{USER_LIBRARIES}"
    names = sorted(name for name in _names(libraries) if re.fullmatch(r"python3\.\d+", name))
    return [f"{libraries}/{name}/site-packages" for name in names if os.path.isdir(f"{libraries}/{name}/site-packages")]


def venvs(home: str, workspace: str) -> list[str]:
    """Folders with a ``pyvenv.cfg``, as deep as people put them; uv's tools are such folders too."""
    left = [_FOLDERS]
    roots = [home, workspace] if workspace != home else [home]
    found = [folder for root in roots for folder in _venvs_below(root, _DEPTH, left)]
    found += [folder for name in _names(f"{home}/{UV_TOOLS}") if _is_venv(folder := f"{home}/{UV_TOOLS}/{name}")]
    return list(dict.fromkeys(found))


def _venvs_below(folder: str, depth: int, left: list[int]) -> Iterator[str]:
    left[0] -= 1
    if left[0] < 0:
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        yield folder
        return
    for entry in entries if depth else ():
        hidden = entry.name.startswith(".") and entry.name not in _HIDDEN
        if not hidden and entry.name not in _NOT_INTO and entry.is_dir(follow_symlinks=False):
            yield from _venvs_below(entry.path, depth - 1, left)


def _is_venv(folder: str) -> bool:
    return os.path.isfile(f"{folder}/pyvenv.cfg")


def venv_settings(folder: str) -> dict[str, str]:
    """``pyvenv.cfg``."""
    lines = _text(f"{folder}/pyvenv.cfg").splitlines()
    return {key.strip().lower(): value.strip() for key, _, value in (line.partition("=") for line in lines)}


def venv_site(folder: str) -> str:
    """Its ``site-packages``; empty where it has none."""
    for name in _names(f"{folder}/lib"):
        if name.startswith("python3.") and os.path.isdir(site := f"{folder}/lib/{name}/site-packages"):
            return site
    return ""


def _user_place(site: str, not_kept: list[str]) -> dict[str, Any]:
    version = os.path.basename(os.path.dirname(site)).removeprefix("python")
    return {"kind": "user", "where": site, "python": version, "packages": packages(site, not_kept)}


def _venv_place(folder: str, not_kept: list[str]) -> dict[str, Any]:
    settings, site = venv_settings(folder), venv_site(folder)
    version = settings.get("version") or settings.get("version_info") or ""
    return {
        "kind": "venv",
        "where": folder,
        "python": version[:20],
        "pip": os.path.isdir(f"{site}/pip"),
        "system_packages": settings.get("include-system-site-packages") == "true",
        "packages": packages(site, not_kept) if site else [],
    }


def packages(site: str, not_kept: list[str]) -> list[str]:
    """As ``pip freeze`` has them, without pip itself."""
    found = []
    for name in sorted(_names(site)):
        if not name.endswith(".dist-info"):
            continue
        fields = dict(re.findall(r"^(Name|Version): *(\S+)", _text(f"{site}/{name}/METADATA"), re.MULTILINE))
        if "Name" not in fields or "Version" not in fields or fields["Name"].lower() in ("pip", "setuptools", "wheel"):
            continue
        line = f"{fields['Name']}=={fields['Version']}"
        url = _origin(f"{site}/{name}/direct_url.json")
        if url and (holds_secret(url) or urlsplit(url).username is not None):
            not_kept.append(f"where {fields['Name']} came from")
        elif url:
            line = f"{fields['Name']} @ {url}"
        if manifest.is_requirement(line):
            found.append(line)
    return found


def _origin(path: str) -> str:
    """Of a package that came from no index (PEP 610)."""
    try:
        body = json.loads(_text(path) or "{}")
        url, version = str(body["url"]), body.get("vcs_info")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return f"git+{url}@{version['commit_id']}" if isinstance(version, dict) and "commit_id" in version else url


def npm(home: str) -> list[str]:
    found = []
    folder = f"{home}/{NODE_MODULES}"
    for name in npm_names(folder):
        try:
            version = json.loads(_text(f"{folder}/{name}/package.json"))["version"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if manifest.is_npm(line := f"{name}@{version}"):
            found.append(line)
    return found


def npm_names(folder: str) -> list[str]:
    names = []
    for name in sorted(_names(folder)):
        names += [f"{name}/{each}" for each in sorted(_names(f"{folder}/{name}"))] if name.startswith("@") else [name]
    return [name for name in names if not name.startswith(".") and os.path.isfile(f"{folder}/{name}/package.json")]


def uv_tools(home: str) -> list[str]:
    found = []
    for name in sorted(_names(f"{home}/{UV_TOOLS}")):
        lines = packages(venv_site(f"{home}/{UV_TOOLS}/{name}"), [])
        versions = {line.partition("==")[0].lower().replace("_", "-"): line.partition("==")[2] for line in lines}
        version = versions.get(name.lower())
        if version and manifest.is_tool(line := f"{name} {version}"):
            found.append(line)
    return found


def cargo(home: str) -> list[str]:
    """``~/.cargo/.crates2.json``: ``{"installs": {"name 1.0.0 (source)": …}}``."""
    try:
        installs = json.loads(_text(f"{home}/{CARGO}/.crates2.json") or "{}")["installs"]
        lines = [" ".join(str(each).split(" ")[:2]) for each in installs]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return sorted(filter(manifest.is_tool, lines))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _METADATA_BYTES:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
