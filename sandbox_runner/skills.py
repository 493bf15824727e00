"""Skills of a workspace: folders ``skills/NAME`` with a ``SKILL.md`` that says how a kind of work is done.

The workspace is hostile: names, sizes and numbers are bounded, and nothing here follows a link or reads anything but a
plain file. Calls block: run them in a thread.
"""

from __future__ import annotations

import re

from agent.sandbox import SandboxError
from sandbox_runner import texts
from workspace_store.beneath import UnsafePath
from workspace_store.live import FileTooLarge
from workspace_store.packs import VolumeError
from workspace_store.volumes import Volume

FOLDER = "workspace/skills"
FILE = "SKILL.md"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST = 50
MOST_BYTES = 64 << 10
DESCRIPTION_CHARACTERS = 300
FRONT = re.compile(r"\A---[ \t]*\r?\n(?P<front>.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
DESCRIPTION = re.compile(r"^description:[ \t]*(?P<said>[^\r\n]*(?:\r?\n[ \t]+[^\r\n]+)*)", re.MULTILINE)


def listed(volume: Volume) -> tuple[tuple[str, str], ...]:
    """(name, description) of each skill, by name; what is no skill, or cannot be read, is left out."""
    try:
        names = sorted(name for name in volume.folder(FOLDER) if NAME.fullmatch(name))
    except (OSError, UnsafePath, VolumeError):
        return ()
    found = []
    for name in names[:MOST]:
        try:
            found.append((name, _description(_read(volume, name))))
        except (OSError, UnsafePath, VolumeError, FileTooLarge):
            continue
    return tuple(found)


def body(volume: Volume, name: str) -> str:
    """What a skill says below its front matter. Raises SandboxError with why there is none."""
    if not NAME.fullmatch(name):
        raise SandboxError(texts.no_such_skill(name))
    try:
        text = _read(volume, name)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SandboxError(texts.no_such_skill(name)) from error
    except FileTooLarge as error:
        raise SandboxError(texts.skill_too_long(name, MOST_BYTES)) from error
    except (UnsafePath, VolumeError, OSError) as error:
        raise SandboxError(texts.skill_unreadable(name, str(error))) from error
    return FRONT.sub("", text, count=1).strip()


def _read(volume: Volume, name: str) -> str:
    return volume.read_file(f"{FOLDER}/{name}/{FILE}", max_bytes=MOST_BYTES).decode("utf-8", "replace")


def _description(text: str) -> str:
    """The description of the front matter, on one line."""
    front = FRONT.match(text)
    found = DESCRIPTION.search(front["front"]) if front else None
    said = " ".join(found["said"].split()).lstrip("|>-+ ") if found else ""
    return said.strip("\"'")[:DESCRIPTION_CHARACTERS]
