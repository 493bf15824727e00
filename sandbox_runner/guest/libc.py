"""``prctl(2)``, which Python does not offer, without ``ctypes`` around it (3 ms to import)."""

from __future__ import annotations

import _ctypes
import os

PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int


# None, as dlopen(3) has it: what is loaded already.
_call = _Function(_ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "prctl"))  # type: ignore[arg-type]


def prctl(option: int, value: int | bytes) -> None:
    """Raises OSError."""
    if _call(option, value, 0, 0, 0) != 0:
        raise OSError(_ctypes.get_errno(), f"prctl {option}")
