"""The manager's door: a unix socket in a private directory, newline-delimited JSON, many requests at once.

A connection is a runner: what it holds is let go when it ends, and its sandboxes stay warm.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from agent.sandbox import SandboxError, SandboxLost, SandboxUnavailable
from sandbox_runner import texts
from sandbox_runner.manager import Manager
from sandbox_runner.sandboxes import FRAME_LIMIT, VolumeRefused, encode, short_path
from workspace_store.beneath import UnsafePath
from workspace_store.database import DatabaseUnavailable
from workspace_store.packs import VolumeError
from workspace_store.tenancy import StaleTenancy

log = structlog.get_logger()

Send = Callable[[Mapping[str, Any]], None]


async def listen(manager: Manager, path: Path) -> asyncio.Server:
    """Serve ``manager`` at ``path``, in place of whatever a dead manager left there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with short_path(path) as name:
        server = await asyncio.start_unix_server(
            lambda reader, writer: _serve(manager, reader, writer), name, limit=FRAME_LIMIT
        )
    os.chmod(path, 0o600)
    return server


async def _serve(manager: Manager, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = object()
    running: set[asyncio.Task[None]] = set()

    def send(frame: Mapping[str, Any]) -> None:
        if writer.is_closing():
            return
        too_long = {"id": frame["id"], "error": "refused", "message": "the answer is too long to be told"}
        writer.write(encode(frame) or encode(too_long) or b"")

    try:
        while line := await reader.readline():
            task = asyncio.create_task(_answer(manager, connection, json.loads(line), send))
            running.add(task)
            task.add_done_callback(running.discard)
    except (ConnectionError, ValueError) as error:
        log.warning("a runner's connection broke", reason=str(error))
    finally:
        for task in running:
            task.cancel()
        writer.close()
        await manager.let_go(connection)


async def _answer(manager: Manager, connection: object, frame: dict[str, Any], send: Send) -> None:
    number = frame.pop("id")
    op = OPS[frame.pop("op")]
    owner = UUID(frame.pop("principal"))
    try:
        result = await op(manager, connection, owner, frame, lambda text: send({"id": number, "output": text}))
    except SandboxLost as error:
        send({"id": number, "error": "lost", "message": str(error)})
    except VolumeRefused as error:
        send({"id": number, "error": "inconsistent", "message": str(error)})
    except SandboxUnavailable as error:
        send({"id": number, "error": "unavailable", "message": str(error)})
    except (SandboxError, DatabaseUnavailable, StaleTenancy, VolumeError, OSError) as error:
        send({"id": number, "error": "refused", "message": str(error)})
    except Exception as error:
        log.exception("a request failed", op=op.__name__)
        send({"id": number, "error": "refused", "message": f"{type(error).__name__}: {error}"})
    else:
        send({"id": number, "result": result})


Op = Callable[[Manager, object, UUID, dict[str, Any], Callable[[str], None]], Awaitable[Any]]


async def _wake(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    report, live_id = await manager.wake(owner, connection)
    return {**asdict(report), "live_id": live_id}


async def _run(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return asdict(await manager.run(owner, on_output=tell, **given))


async def _assist(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return asdict(await manager.assist(owner, **given))


async def _result(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    found = await manager.result(owner, given["call_id"])
    return asdict(found) if found else None


async def _interrupt(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    async with manager.answering(owner) as guest:
        await guest.interrupt(given["terminal"])


async def _tasks(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    async with manager.answering(owner) as guest:
        return [asdict(task) for task in await guest.tasks()]


async def _task_output(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    async with manager.answering(owner) as guest:
        return await guest.task_output(given["task"], given["tail_bytes"])


async def _stop_task(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return asdict(await manager.stop_task(owner, given["task"]))


async def _start_task(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return asdict(await manager.start_task(owner, given["task"], given["policy"]))


async def _capture(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    async with manager.answering(owner) as guest:
        return (await guest.capture()).digest


async def _look(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return asdict(await manager.look(owner))


async def _skill(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return await manager.skill(owner, given["name"])


async def _changed_files(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    first, count = await manager.changed_files(owner, connection)
    return {"first": first, "count": count}


async def _snapshot(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return (await manager.snapshot(owner, connection, UUID(given["turn"]), given["note"])).to_json()


async def _check(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    turn = UUID(given["turn"])
    return asdict(await manager.check(owner, connection, turn, given["command"], given["seconds"]))


async def _stop_check(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    await manager.checks.stop(owner)


async def _place_files(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    async with manager.seated(owner, connection) as seat:
        placed = await asyncio.to_thread(manager.files.place, seat, given["files"])
        return {"live_id": seat.volume.live_id(), "files": [asdict(file) for file in placed]}


async def _freeze_file(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    async with manager.seated(owner, connection) as seat:
        return asdict(await asyncio.to_thread(manager.files.freeze, seat, given["path"], given["most"]))


async def _running_tasks(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return [asdict(task) for task in await manager.running_tasks(owner)]


async def _rest(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return (await manager.rest(owner, connection, UUID(given["turn"]), given["note"])).to_json()


async def _rewind(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    turn = UUID(given.pop("turn"))
    try:
        return (await manager.rewind(owner, connection, turn, **given)).to_json()
    except FileNotFoundError as error:
        raise SandboxError(texts.not_in_generation(str(error), given["to"])) from error
    except UnsafePath as error:
        raise SandboxError(str(error)) from error


async def _differences(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    return await manager.differences(owner, given["before"], given["after"])


async def _give_back(manager: Manager, connection: object, owner: UUID, given: dict[str, Any], tell: Any) -> Any:
    await manager.give_back(owner, connection)


OPS: Mapping[str, Op] = {
    "wake": _wake,
    "run": _run,
    "assist": _assist,
    "result": _result,
    "interrupt": _interrupt,
    "tasks": _tasks,
    "task_output": _task_output,
    "stop_task": _stop_task,
    "start_task": _start_task,
    "capture": _capture,
    "look": _look,
    "skill": _skill,
    "changed_files": _changed_files,
    "check": _check,
    "stop_check": _stop_check,
    "place_files": _place_files,
    "freeze_file": _freeze_file,
    "snapshot": _snapshot,
    "running_tasks": _running_tasks,
    "rest": _rest,
    "rewind": _rewind,
    "differences": _differences,
    "give_back": _give_back,
}
