"""The frames a guest may send, as types: exact, and bounded in every size.

Only shapes are checked here; what follows from a wrong one is ``guest_connection``'s.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

MAX_FRAME = 2 << 20
_MAX_NOTES = 1000


class Said(BaseModel):
    """Base of all that a guest says: exact types, no surprises in size."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


_Text = Annotated[str, Field(max_length=MAX_FRAME)]
_Name = Annotated[str, Field(max_length=256)]
_FilePath = Annotated[str, Field(max_length=8192)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Notes = Annotated[tuple[Annotated[str, Field(max_length=8192)], ...], Field(max_length=_MAX_NOTES, strict=False)]
_Lines = Annotated[tuple[Annotated[str, Field(max_length=1024)], ...], Field(max_length=256, strict=False)]
_Count = Annotated[int, Field(ge=0, lt=1 << 53)]


class Result(Said):
    call_id: _Name
    status: Literal["exited", "running", "interrupted"]
    exit_code: int | None
    output: _Text
    omitted_bytes: _Count
    duration_ms: _Count
    terminal: _Name
    cwd: _FilePath
    task: _Count | None
    state_digest: _Digest | None
    notes: _Notes


class Held(Said):
    processes: _Count


class TaskRecord(Said):
    task: _Count
    argv: Annotated[tuple[Annotated[str, Field(max_length=1 << 18)], ...], Field(max_length=8192, strict=False)]
    cwd: _FilePath
    state: Literal["running", "exited", "lost", "stopped"]
    exit_code: int | None
    log: _FilePath
    policy: Literal["restart", "ask", "never"]
    starts: _Count
    started_at: float
    timer: bool = False


class MaybeTask(Said):
    task: TaskRecord | None


class Unknown(Said):
    unknown: Literal[True]


class Tasks(Said):
    tasks: Annotated[list[TaskRecord], Field(max_length=100_000)]


class OneTask(Said):
    task: TaskRecord


class Output(Said):
    output: _Text


class Interrupted(Said):
    interrupted: bool


class GuestHello(Said):
    """Who answers on the other end."""

    protocol: int
    pid: int
    python: _Name
    workspace: _FilePath


class Restored(Said):
    """What a guest came up from. ``digest`` is None where there was no usable state."""

    digest: _Digest | None
    terminals: Annotated[dict[_Name, _Lines], Field(max_length=64)]
    """What each showed last."""
    ended: Annotated[tuple[TaskRecord, ...], Field(max_length=256, strict=False)]
    """Tasks whose end was not recorded by the host before the sandbox went."""
    notes: _Notes


class Captured(Said):
    """``digest`` is None where a terminal is busy (the last publication stands) or nothing could be written."""

    digest: _Digest | None
    notes: _Notes


class Refusal(Said):
    code: _Name
    message: _Text


class Answer(Said):
    id: int
    ok: bool
    result: dict[str, Any] | None = None
    error: Refusal | None = None


class OutputEvent(Said):
    event: Literal["output"]
    call_id: _Name
    data: _Text


class TaskEndedEvent(Said):
    event: Literal["task_ended"]
    task: TaskRecord


class CrontabEvent(Said):
    event: Literal["crontab"]
    text: Annotated[str, Field(max_length=16 << 10)]


class ScreenEvent(Said):
    """Texts that are about to be written down."""

    event: Literal["screen"]
    number: _Count
    texts: Annotated[list[_Text], Field(max_length=100_000)]


class StateEvent(Said):
    event: Literal["state"]
    digest: _Digest | None


EVENT: TypeAdapter[OutputEvent | TaskEndedEvent | CrontabEvent | ScreenEvent | StateEvent] = TypeAdapter(
    Annotated[OutputEvent | TaskEndedEvent | CrontabEvent | ScreenEvent | StateEvent, Field(discriminator="event")]
)
RESULT: TypeAdapter[Result | Unknown] = TypeAdapter(Result | Unknown)
