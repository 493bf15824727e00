"""What a check finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor: ``warn`` is worth knowing, ``fail`` keeps something from working."""

    name: str
    state: State
    sentence: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)
