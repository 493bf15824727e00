"""``nightporter memory``: the commands and their options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightporter.cli import MOST

memory = typer.Typer(no_args_is_help=True, help="What is kept in memory of a user or room.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Whose = Annotated[
    str, typer.Argument(metavar="USER", help="UUID, or a name such as owner, local:ann, email:a@b.org, slack:T1/C1.")
]


@memory.command("list")
def memory_list(
    user: Whose = "owner",
    ever: Annotated[bool, typer.Option("--all", help="Also notes that another stands for now.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many, the newest.")] = 100,
    json: Json = False,
) -> int:
    """List notes, newest first."""
    from nightporter.cli import remembering

    return remembering.listed(user, limit, ever=ever, as_json=json)


@memory.command("search")
def memory_search(
    user: Whose,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="What to look for.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="At most so many hits.")] = 5,
    json: Json = False,
) -> int:
    """Search in notes, turns and imported words, best first. Exit code 1 when nothing is found."""
    from nightporter.cli import remembering

    return remembering.search(user, " ".join(query), k, as_json=json)


@memory.command("forget")
def memory_forget(
    user: Whose,
    what: Annotated[
        list[str], typer.Argument(metavar="ID…|WORDS", help="Ids as `memory search` shows them, or words.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    json: Json = False,
) -> int:
    """Forget notes, turns or imported words for good; the journal's chain still verifies."""
    from nightporter.cli import remembering

    return remembering.forget(user, what, yes=yes, as_json=json)


@memory.command("export")
def memory_export(
    user: Whose,
    file: Annotated[Path, typer.Argument(help="The archive to write (.zip); it must not exist.")],
    json: Json = False,
) -> int:
    """Write what is kept of a user's talk into one archive: notes, turns, imported words and journal."""
    from nightporter.cli import remembering

    return remembering.export(user, file, as_json=json)
