"""Names of files: what a stranger claims, and what is safe as one entry of a folder."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME_BYTES = 150

_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?")
_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f\x7f]')
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe_name(claimed: str, default: str = "file") -> str:
    """A plain file name for ``claimed``: no folder, control, bidi or forbidden character, no device, not hidden, never
    an option. ``default`` where nothing is left; at most MAX_NAME_BYTES in UTF-8, the extension survives.
    """
    name = unicodedata.normalize("NFC", claimed[-1000:])
    name = re.split(r"[/\\]", name)[-1]
    name = "".join(c for c in name if unicodedata.category(c) not in _INVISIBLE)
    name = _FORBIDDEN.sub("_", name)
    name = " ".join(name.split()).strip(". ").lstrip("-~")
    if not name.strip("_ ."):
        name = default
    if _DEVICES.fullmatch(name):
        name = f"_{name}"
    return _shortened(name)


def numbered(name: str, number: int) -> str:
    """``name`` itself for 1, then ``name-2`` and so on before the extension."""
    stem, dot, extension = name.rpartition(".")
    if number == 1:
        return name
    return f"{stem}-{number}.{extension}" if dot and stem else f"{name}-{number}"


def unique_name(name: str, taken: set[str]) -> str:
    """``name``, numbered if a case-blind file system could not keep both; it is then taken."""
    number = 1
    while numbered(name, number).casefold() in taken:
        number += 1
    taken.add(numbered(name, number).casefold())
    return numbered(name, number)


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    if not dot or len(extension.encode()) > 20:
        stem, dot, extension = name, "", ""
    room = MAX_NAME_BYTES - len((dot + extension).encode())
    return stem.encode()[:room].decode("utf-8", "ignore").rstrip(". ") + dot + extension
