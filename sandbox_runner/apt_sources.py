"""Where this machine's packages come from, as sandboxes are shown it: its apt sources without what may be a secret.

Sandboxes show this machine's system, so ``porter-apt`` inside takes from the same archives. An address with a user or
a password in it is left out, and so is what is no address of the web (``file:``, ``cdrom:``): it is not there inside.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

INSTALLED = "var/lib/dpkg/status"
"""What the system has, for apt to build on; world-readable on every Debian."""

LIST = "/etc/apt/sources.list"
STANZAS = "/etc/apt/sources.list.d/system.sources"

_ONE_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S+")
_FIELD = re.compile(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", re.MULTILINE)


def read(root: Path = Path("/")) -> dict[str, str]:
    """Path inside → text; empty where there is no apt, or nothing of its sources can be read."""
    folder = root / "etc/apt"
    parts = sorted(folder.glob("sources.list.d/*"))
    lines = [line for path in (folder / "sources.list", *parts) if path.suffix == ".list" for line in _lines(path)]
    stanzas = [text for path in parts if path.suffix == ".sources" for text in _stanzas(path)]
    found = {LIST: "".join(f"{line}\n" for line in lines), STANZAS: "\n".join(stanzas)}
    return {path: text for path, text in found.items() if text}


def _lines(path: Path) -> list[str]:
    matches = map(_ONE_LINE.match, _text(path).splitlines())
    return [match.string.strip() for match in matches if match and _is_public(match[1])]


def _stanzas(path: Path) -> list[str]:
    found = []
    for text in re.split(r"\n\s*\n", _text(path)):
        plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        fields = {match[1].lower(): match for match in _FIELD.finditer(plain)}
        said, enabled = fields.get("uris"), fields.get("enabled")
        if said is None or (enabled is not None and enabled[2].strip().lower() in ("no", "false", "0")):
            continue
        addresses = [address for address in said[2].split() if _is_public(address)]
        if addresses:
            start, end = said.span()
            found.append(f"{plain[:start]}URIs: {' '.join(addresses)}{plain[end:]}\n".lstrip("\n"))
    return found


def _is_public(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and "@" not in address and not parts.query


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
