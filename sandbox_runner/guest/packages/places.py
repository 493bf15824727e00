"""Where user-level packages are below HOME, and the variables by which programs find them.

All of it is in the volume, so that what was installed is there in every later sandbox.
"""

from __future__ import annotations

import os

APT = ".local/apt"
"""Debian packages, unpacked as if this were ``/``."""
NPM_PREFIX = ".local"
NODE_MODULES = ".local/lib/node_modules"
CARGO = ".cargo"
UV_TOOLS = ".local/share/uv/tools"
USER_LIBRARIES = ".local/lib"
"""``pythonX.Y/site-packages`` below it."""

_APT_PROGRAMS = ("usr/local/bin", "usr/bin", "usr/sbin", "usr/games")


def triplet() -> str:
    """Debian's name of this machine, as in ``/usr/lib/x86_64-linux-gnu``."""
    machine = os.uname().machine
    return {"armv7l": "arm-linux-gnueabihf", "i686": "i386-linux-gnu"}.get(machine, f"{machine}-linux-gnu")


def programs(home: str) -> list[str]:
    """Folders of programs, those of a person before those of packages."""
    return [f"{home}/.local/bin", f"{home}/{CARGO}/bin", *(f"{home}/{APT}/{folder}" for folder in _APT_PROGRAMS)]


def libraries(home: str) -> list[str]:
    return [f"{home}/{APT}/usr/{folder}" for folder in (f"lib/{triplet()}", "lib")]


def environment(home: str, path: str) -> dict[str, str]:
    """Variables of a new shell; ``path`` is what PATH would be without."""
    apt = f"{home}/{APT}/usr"
    own = programs(home)
    rest = [folder for folder in path.split(":") if folder not in own]
    return {
        "PATH": ":".join([*own, *rest]),
        "LD_LIBRARY_PATH": ":".join(libraries(home)),
        # What ends in a colon is searched before the system's, not in its place.
        "MANPATH": f"{apt}/share/man:",
        "PKG_CONFIG_PATH": f"{apt}/lib/{triplet()}/pkgconfig:{apt}/lib/pkgconfig:{apt}/share/pkgconfig",
        "PERL5LIB": f"{apt}/lib/{triplet()}/perl5:{apt}/share/perl5",
        # For compilers: -dev packages.
        "LIBRARY_PATH": ":".join(libraries(home)),
        "C_INCLUDE_PATH": f"{apt}/include:{apt}/include/{triplet()}",
        "CPLUS_INCLUDE_PATH": f"{apt}/include:{apt}/include/{triplet()}",
        # The system is read-only, so that nothing of it can be broken: pip and npm install in HOME.
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
        "NPM_CONFIG_PREFIX": f"{home}/{NPM_PREFIX}",
        "NPM_CONFIG_PROGRESS": "false",
        "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    }


def watched(home: str, workspace: str, places: list[str]) -> tuple[int, ...]:
    """How the folders look that change when something is installed: to be compared with how they looked before."""
    paths = [home, workspace, f"{home}/{USER_LIBRARIES}", f"{home}/{NODE_MODULES}", f"{home}/{CARGO}/.crates2.json"]
    paths += [f"{home}/{UV_TOOLS}", f"{home}/{APT}/.porter/packages", *places]
    found = []
    for path in paths:
        try:
            found.append(os.stat(path).st_mtime_ns)
        except OSError:
            found.append(0)
    return tuple(found)
