"""Packages made at test time, and the places they are fetched from: nothing comes from beyond loopback."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Deb:
    """A Debian package to be. ``files``: path → text; a text that begins with ``-> `` is a link."""

    name: str
    files: Mapping[str, str]
    version: str = "1.0"
    depends: str = ""
    conflicts: str = ""
    postinst: str = ""


def build(deb: Deb, folder: Path) -> bytes:
    """By ``dpkg-deb``, as every archive has them."""
    tree = folder / f"{deb.name}-{deb.version}"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = {
        "Package": deb.name, "Version": deb.version, "Architecture": "all", "Maintainer": "A <a@b.example>",
        "Depends": deb.depends, "Conflicts": deb.conflicts, "Description": "made for a test\n of several lines",
    }  # fmt: skip
    (tree / "DEBIAN/control").write_text("".join(f"{name}: {text}\n" for name, text in fields.items() if text))
    if deb.postinst:
        (tree / "DEBIAN/postinst").write_text(f"#!/bin/sh\n{deb.postinst}\n")
        (tree / "DEBIAN/postinst").chmod(0o755)
    for name, text in deb.files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            os.symlink(text[3:], path)
        else:
            path.write_text(text)
            path.chmod(0o755 if path.parent.name in ("bin", "sbin", "games") else 0o644)
    made = folder / f"{deb.name}_{deb.version}_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, made], check=True, capture_output=True)
    return made.read_bytes()


def repository(debs: Sequence[Deb], folder: Path) -> dict[str, bytes]:
    """A flat repository as files of a web server."""
    folder.mkdir(exist_ok=True)
    found, index = {}, ""
    for deb in debs:
        data = build(deb, folder)
        name = f"{deb.name}_{deb.version.replace(':', '-')}_all.deb"
        control = (folder / f"{deb.name}-{deb.version}/DEBIAN/control").read_text()
        digest = hashlib.sha256(data).hexdigest()
        index += f"{control}Filename: ./{name}\nSize: {len(data)}\nSHA256: {digest}\n\n"
        found[name] = data
    found |= {"Packages": index.encode(), "Packages.gz": gzip.compress(index.encode())}
    # As apt asks for what is in "./".
    return {f"/debian/./{name}": data for name, data in found.items()}


def wheel(name: str, version: str = "1.0", said: str = "installed", *, script: bool = False) -> bytes:
    """A pure package of Python, with a program of its name if ``script``."""
    info = f"{name}-{version}.dist-info"
    content = {
        f"{name}.py": f"def main():\n    print('{said}')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    if script:
        content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{name} = {name}:main\n"
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in content)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return packed.getvalue()


def index(wheels: Mapping[str, bytes]) -> dict[str, bytes]:
    """An index of file name → wheel, as files of a web server."""
    found: dict[str, bytes] = {}
    for name, data in wheels.items():
        link = f'<a href="/{name}#sha256={hashlib.sha256(data).hexdigest()}">{name}</a>\n'.encode()
        page = f"/simple/{name.partition('-')[0]}/"
        found[page] = found.get(page, b"") + link
        found[f"/{name}"] = data
    return found
