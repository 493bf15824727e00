"""Reading requests and fitting answers: the small change of the protocol."""

from __future__ import annotations

from .framing import MAX_FRAME, encode
from .shell_scripts import OWN_LINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .terminal import Call


class BadRequest(ValueError):
    """The host asked for something that is not in the protocol."""


def without_own_lines(text: str, token: str, command_path: str) -> str:
    """Under ``set -x`` and ``set -v`` bash shows the lines of the guest as well."""
    first, newline, rest = text.partition("\n")
    if newline and first.endswith(f" . {command_path}"):
        text = rest
    traced = text.find(token)
    if traced >= 0:
        text = text[: text.rfind("\n", 0, traced) + 1]
    return text.removesuffix(OWN_LINE + "\n")


def fit(result: dict[str, Any]) -> dict[str, Any]:
    """Within a frame: a control character takes six bytes there."""
    while len(encode(result)) > MAX_FRAME - 4096:
        text = result["output"]
        quarter = len(text) // 4
        result["omitted_bytes"] += len(text[quarter:-quarter].encode("utf-8", "replace"))
        result["output"] = f"{text[:quarter]}\n[… more omitted …]\n{text[-quarter:]}"
    return result


def result_of(
    call: Call,
    status: str,
    exit_code: int | None,
    output: str,
    cwd: str,
    *,
    omitted_bytes: int = 0,
    terminal: str = "",
    task: int | None = None,
    state_digest: str | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """What a call is answered with, within a frame."""
    return fit({
        "call_id": call.call_id,
        "status": status,
        "exit_code": exit_code,
        "output": output,
        "omitted_bytes": omitted_bytes,
        "duration_ms": call.milliseconds(),
        "terminal": terminal,
        "cwd": cwd,
        "task": task,
        "state_digest": state_digest,
        "notes": list(notes),
    })  # fmt: skip


def without_terminal(call: Call, cwd: str, output: str, exit_code: int | None) -> dict[str, Any]:
    """The result of a call that ran beside the terminals; ``exit_code`` None: it was cut off."""
    return result_of(call, "interrupted" if exit_code is None else "exited", exit_code, output, cwd)


def string(frame: dict[str, Any], key: str, limit: int, default: str | None = None) -> str:
    value = frame.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise BadRequest(f"{key} must be a string of at most {limit} characters")
    return value


def number(frame: dict[str, Any], key: str, default: float) -> float:
    value = frame.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise BadRequest(f"{key} must be a number from 0")
    return float(value)


def count(frame: dict[str, Any], key: str) -> int:
    value = frame.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise BadRequest(f"{key} must be a whole number from 0")
    return value
