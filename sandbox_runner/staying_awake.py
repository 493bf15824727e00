"""What a sandbox asks for with ``porter-awake``: to be kept awake for its background tasks, within a cap.

The wish is a file in the volume that holds a time, written by whoever is inside: it can only put off sleep, and never
for longer than the settings say after the last turn.
"""

from __future__ import annotations

from workspace_store.beneath import UnsafePath
from workspace_store.packs import VolumeError
from workspace_store.volumes import Volume

WISH = "home/.nightporter/awake"
_MOST_BYTES = 32


def wished_until(volume: Volume) -> float:
    """Unix time until which the sandbox wants to be awake; 0: it does not."""
    try:
        return float(int(volume.read_file(WISH, max_bytes=_MOST_BYTES)))
    except (OSError, ValueError, OverflowError, UnsafePath, VolumeError):
        return 0.0
