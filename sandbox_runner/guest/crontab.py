"""The crontab of this sandbox: a file that ``crontab`` (the program) writes. The host says when a line of it is due."""

from __future__ import annotations

import os
import stat

from . import state_file
from .secret_filter import text_holds_secret

NAME = "crontab"
MAX_BYTES = 8 << 10


def read(folder: str) -> str:
    """Empty where there is none, or something that is none."""
    try:
        descriptor = os.open(os.path.join(folder, NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, MAX_BYTES).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def kept(text: str) -> str:
    """As it goes into the state file."""
    return "".join(line for line in text.splitlines(True) if not text_holds_secret(line))


def give_back(folder: str, text: str) -> None:
    """Write it where it is gone."""
    if text and not os.path.lexists(os.path.join(folder, NAME)):
        try:
            state_file.write(folder, NAME, text.encode("utf-8", "replace"))
        except OSError:
            return
