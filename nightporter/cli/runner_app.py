"""``nightporter runner``: a runner alone on its host, and how it leaves."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

AgentFile = Annotated[
    Path | None, typer.Option("--agent", metavar="FILE", help="Python file of an agent of your own, as agent.file.")
]

runner = typer.Typer(help="Start a runner alone: turns, and the sandboxes of this host; or let it leave.")


def serving() -> ModuleType:
    """What starts services, imported now."""
    import gc

    gc.disable()  # until the forks all of this is kept anyway; looking for garbage is a sixth of the start
    from nightporter.cli import serving

    return serving


@runner.callback(invoke_without_command=True)
def run(context: typer.Context, agent: AgentFile = None) -> int:
    """Start a runner alone: turns, and the sandboxes of this host."""
    return int(serving().runner(agent)) if context.invoked_subcommand is None else 0


@runner.command("drain")
def drain(
    seconds: Annotated[
        float, typer.Option(min=1, help="How long turns may take to end before they are cut off.")
    ] = 600.0,
) -> int:
    """Let the runners of this host leave: they end their turns, put their sandboxes to sleep, and exit; others go on.

    Exit code 1: a turn was cut off after `--seconds`; another runner goes on with it. 3: no runner runs here.
    """
    from nightporter.cli import leaving

    return leaving.drain(seconds)


@runner.command("check")
def check() -> int:
    """Say, for a probe, whether a runner of this home serves. Exit code 1: a part of it does not live; 3: none runs."""
    from nightporter.cli import leaving

    return leaving.check()
