"""``nightporter schedules``: the commands and their options; what they do is imported when they run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

schedules = typer.Typer(no_args_is_help=True, help="What is said again when it is time, in somebody's name.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Whose = Annotated[
    str, typer.Argument(metavar="USER", help="UUID, or a name such as local:ann, email:a@b.org, slack:T1/C1 (a room).")
]
Code = Annotated[str, typer.Argument(metavar="ID", help="The schedule's short name.")]


@schedules.command("list")
def schedules_list(
    principal: Annotated[str, typer.Argument(metavar="USER", help="Of this user or room alone.")] = "",
    json: Json = False,
) -> int:
    """List schedules, of everybody when USER is left out."""
    from nightporter.cli import scheduling

    return scheduling.listed(principal, as_json=json)


@schedules.command("add")
def schedules_add(
    principal: Whose,
    when: Annotated[str, typer.Argument(help="`every day at 7:30`, `in 20 minutes`, `cron 30 7 * * mon-fri`, …")],
    text: Annotated[str, typer.Argument(help="What is said then, as if that person said it.")],
    zone: Annotated[str, typer.Option(help="Time zone, such as Europe/Berlin; `schedules.time_zone` by default.")] = "",
    missed: Annotated[
        Literal["catch-up", "skip"], typer.Option(help="What was missed is said once, late; or left out.")
    ] = "catch-up",
    by: Annotated[str, typer.Option("--as", help="For a room: the user whose word it is; the owner by default.")] = "",
    json: Json = False,
) -> int:
    """Schedule something, to be answered where that person wrote last."""
    from nightporter.cli import scheduling

    return scheduling.add(principal, when, text, zone, missed, by, as_json=json)


@schedules.command("pause")
def schedules_pause(code: Code, json: Json = False) -> int:
    """Let a schedule rest. Exit code 1 where that changes nothing, as with the following ones."""
    from nightporter.cli import scheduling

    return scheduling.change(code, "pause", as_json=json)


@schedules.command("resume")
def schedules_resume(code: Code, json: Json = False) -> int:
    """Let a schedule go on; what came meanwhile was not missed."""
    from nightporter.cli import scheduling

    return scheduling.change(code, "resume", as_json=json)


@schedules.command("run")
def schedules_run(code: Code, json: Json = False) -> int:
    """Say it now, whatever its time is."""
    from nightporter.cli import scheduling

    return scheduling.change(code, "run", as_json=json)


@schedules.command("remove")
def schedules_remove(code: Code, json: Json = False) -> int:
    """Remove a schedule for good."""
    from nightporter.cli import scheduling

    return scheduling.change(code, "remove", as_json=json)
