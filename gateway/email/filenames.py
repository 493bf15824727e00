"""Names of attachments: what the message claims, and what is safe to store."""

from __future__ import annotations

import mimetypes
import re
import unicodedata

MAX_NAME_BYTES = 150

_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?")
_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f\x7f]')


def safe_name(claimed: str, content_type: str, number: int) -> str:
    """A plain file name for `claimed`: no folder, control, bidi or shell-hostile character, no device, not hidden.

    Never empty, at most MAX_NAME_BYTES in UTF-8; the extension survives.
    """
    name = unicodedata.normalize("NFC", claimed[-1000:])
    name = re.split(r"[/\\]", name)[-1]
    name = "".join(c for c in name if unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
    name = _FORBIDDEN.sub("_", name)
    name = " ".join(name.split()).strip(". ").lstrip("-~")
    if not name.strip("_ ."):
        name = f"attachment-{number}{extension_of(content_type)}"
    if _DEVICES.fullmatch(name):
        name = f"_{name}"
    return _shortened(name)


def extension_of(content_type: str) -> str:
    """The usual extension of a media type, with its dot; empty for an unknown one."""
    return {"message/rfc822": ".eml", "text/calendar": ".ics", "image/jpeg": ".jpg", "text/plain": ".txt"}.get(
        content_type
    ) or (mimetypes.guess_extension(content_type) or "")


def unique_name(name: str, taken: set[str]) -> str:
    """`name`, or `name (2)` and so on if a case-blind file system could not keep both; it is then taken."""
    stem, dot, extension = name.rpartition(".")
    if not dot or not stem:
        stem, extension = name, ""
    candidate, number = name, 1
    while candidate.casefold() in taken:
        number += 1
        candidate = f"{stem} ({number}){dot if extension else ''}{extension}"
    taken.add(candidate.casefold())
    return candidate


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    if not dot or len(extension.encode()) > 20:
        stem, dot, extension = name, "", ""
    room = MAX_NAME_BYTES - len((dot + extension).encode())
    return stem.encode()[:room].decode("utf-8", "ignore").rstrip(". ") + dot + extension
