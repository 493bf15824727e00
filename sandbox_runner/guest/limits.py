"""``ulimit``s of a shell: what differs from the guest's own, and how a new shell gets them."""

from __future__ import annotations

import resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NUMBERS = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "locks": 10,  # RLIMIT_LOCKS, which Python does not name
    "memlock": resource.RLIMIT_MEMLOCK,
    "msgqueue": resource.RLIMIT_MSGQUEUE,
    "nice": resource.RLIMIT_NICE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "rss": resource.RLIMIT_RSS,
    "rtprio": resource.RLIMIT_RTPRIO,
    "rttime": resource.RLIMIT_RTTIME,
    "sigpending": resource.RLIMIT_SIGPENDING,
    "stack": resource.RLIMIT_STACK,
}

Pair = tuple[int, int]
"""Soft and hard; -1 is unlimited."""


def differences(pid: int) -> dict[str, list[int]]:
    """Soft and hard limits of a process that differ from the guest's."""
    found: dict[str, list[int]] = {}
    for name, number in _NUMBERS.items():
        try:
            pair = resource.prlimit(pid, number)
        except (OSError, ValueError):
            return {}
        if pair != resource.getrlimit(number):
            found[name] = list(pair)
    return found


def checked(raw: object) -> dict[str, list[int]]:
    """Limits from the state file, with everything left out that is none."""
    if not isinstance(raw, dict):
        return {}
    return {name: list(pair) for name, pair in raw.items() if name in _NUMBERS and _is_pair(pair)}


def _is_pair(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(isinstance(each, int) and not isinstance(each, bool) and -1 <= each < 1 << 62 for each in value)


def by_number(limits: dict[str, list[int]]) -> dict[int, Pair]:
    return {_NUMBERS[name]: (pair[0], pair[1]) for name, pair in limits.items()}


def set_limits(limits: dict[int, Pair]) -> None:
    """Of this process; never above the hard limits it has."""
    for number, (soft, hard) in limits.items():
        most = resource.getrlimit(number)[1]
        try:
            resource.setrlimit(number, (_least(soft, hard, most), _least(hard, most)))
        except (OSError, ValueError):
            continue


def _least(*values: int) -> int:
    return min(values, key=lambda value: value if value >= 0 else 1 << 63)
