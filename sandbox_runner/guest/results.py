"""The results of the last calls, so that asking twice never runs a command twice."""

from __future__ import annotations

from collections import OrderedDict

from .terminal import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

KEPT = 256
KEPT_CHARS = 8 << 20
SHORT = 4096


class Results:
    """By call id. Of old ones with much output only the ends are kept once they are over 8 M characters together."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, Call] = OrderedDict()
        self._chars = 0

    def add(self, call: Call, answer: Callable[[dict[str, Any]], None]) -> None:
        self._calls[call.call_id] = call
        call.waiting.append(answer)
        while len(self._calls) > KEPT:
            settled = next((key for key, old in self._calls.items() if old.result is not None), None)
            if settled is None:
                break
            result = self._calls.pop(settled).result
            self._chars -= len(result["output"]) if result else 0

    def wait(self, call_id: str, answer: Callable[[dict[str, Any]], None]) -> bool:
        """Answer with the result, now or once there is one; False: the call is not known."""
        call = self._calls.get(call_id)
        if call is None:
            return False
        if call.result is not None:
            answer(call.result)
        else:
            call.waiting.append(answer)
        return True

    def settle(self, call: Call, result: dict[str, Any]) -> None:
        call.result = result
        for answer in call.waiting:
            answer(result)
        call.waiting.clear()
        call.output.clear()
        self._chars += len(result["output"])
        for old in self._calls.values():
            if self._chars <= KEPT_CHARS:
                break
            if old is not call and old.result is not None:
                self._chars -= _shorten(old.result)


def _shorten(result: dict[str, Any]) -> int:
    text = result["output"]
    if len(text) <= 3 * SHORT:
        return 0
    left_out = text[SHORT:-SHORT]
    result["output"] = f"{text[:SHORT]}\n[… no longer kept …]\n{text[-SHORT:]}"
    result["omitted_bytes"] += len(left_out.encode("utf-8", "replace"))
    return len(text) - len(result["output"])
