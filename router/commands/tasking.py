"""``/tasks``: what is aimed at and promised. A task is a goal; processes are background tasks, listed elsewhere."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from agent import task_texts as texts
from identity.users import GUEST
from router.commands.command import Asked, Command
from workspace_store import commitments, journal, tasks
from workspace_store.journal import Event
from workspace_store.tasks import NoSuchTask


def _tasks(connection: Connection, asked: Asked) -> str:
    verb, _, rest = asked.rest.strip().partition(" ")
    if not verb:
        return _list(connection, asked)
    if verb.isdecimal():
        return _page(connection, asked, int(verb))
    act = ENDINGS.get(verb.lower())
    number = rest.strip().lstrip("#")
    if act is None or not number.isdecimal() or len(number) > 9:
        return texts.TASKS_USAGE
    if asked.room is not None and asked.user.role == GUEST:
        return texts.ENDED_BY_MEMBERS
    return act(connection, asked, int(number))


def _list(connection: Connection, asked: Asked) -> str:
    found = texts.task_list(
        tasks.open_tasks(connection, asked.principal), commitments.standing(connection, asked.principal)
    )
    return found or (texts.NO_TASKS_OF_ROOM if asked.room else texts.NO_TASKS)


def _page(connection: Connection, asked: Asked, number: int) -> str:
    found = next((one for one in tasks.newest(connection, asked.principal, 1000) if one.number == number), None)
    return texts.task_page(found) if found else f"There is no task {number}."


def _close(connection: Connection, asked: Asked, number: int, *, accept: bool) -> str:
    try:
        found = tasks.numbered(connection, asked.principal, number)
    except NoSuchTask as error:
        return f"{str(error).capitalize()}."
    state, report = ("accepted", texts.ACCEPTED) if accept else ("dropped", "")
    tasks.close(connection, found.id, "accepted" if accept else "dropped", report=report)
    event = Event("task.closed", {"task": number, "state": state, "by": asked.user.id.hex})
    journal.append(connection, asked.principal, [event], under=None)
    return texts.accepted(found) if accept else texts.dropped(found)


def _end(connection: Connection, asked: Asked, number: int, *, kept: bool) -> str:
    found = commitments.end(connection, asked.principal, number, "kept" if kept else "dropped")
    if found is None:
        return f"{texts.no_such_promise(number).capitalize()}."
    event = Event("commitment.ended", {"promise": number, "kept": kept, "by": asked.user.id.hex})
    journal.append(connection, asked.principal, [event], under=None)
    return texts.promise_ended(found, kept)


ENDINGS = {
    "drop": partial(_close, accept=False),
    "accept": partial(_close, accept=True),
    "kept": partial(_end, kept=True),
    "release": partial(_end, kept=False),
}

COMMANDS = {
    "tasks": Command("lists open tasks (goals) and promises; `/tasks N`, `/tasks drop N`, `/tasks accept N`", _tasks,
                     for_rooms=True),
}  # fmt: skip
