"""``nightporter db``: the commands and their options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

db = typer.Typer(no_args_is_help=True, help="The database: check, migrate, keep copies, move.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Copy = Annotated[Path, typer.Argument(metavar="FILE", help="A copy of the whole database, as one SQLite file.")]
Replace = Annotated[bool, typer.Option("--replace", help="Also where there are users already: what is there goes.")]


@db.command("check")
def db_check(json: Json = False) -> int:
    """Say which schema it is at, whether it is sound, and whether every journal's chain holds; 1 when not."""
    from nightporter.cli import keeping_data

    return keeping_data.check(as_json=json)


@db.command("migrate")
def db_migrate(json: Json = False) -> int:
    """Bring it to this release's schema; `up`, `gateway` and `runner` do so themselves."""
    from nightporter.cli import keeping_data

    return keeping_data.migrate(as_json=json)


@db.command("backup")
def db_backup(file: Copy, json: Json = False) -> int:
    """Write a copy of it as it is at one moment, also while Nightporter runs; never over another file."""
    from nightporter.cli import keeping_data

    return keeping_data.backup(file, as_json=json)


@db.command("restore")
def db_restore(file: Copy, replace: Replace = False, json: Json = False) -> int:
    """Put a copy in the place of the database, with Nightporter stopped; what was there is kept beside it (SQLite)."""
    from nightporter.cli import keeping_data

    return keeping_data.restore(file, replace=replace, as_json=json)


@db.command("move")
def db_move(
    url: Annotated[str, typer.Argument(metavar="URL", help="An empty database: postgresql://… or sqlite:///…")],
    replace: Replace = False,
    json: Json = False,
) -> int:
    """Copy everything into another database, compare rows and journal hashes, and say what to set."""
    from nightporter.cli import keeping_data

    return keeping_data.move(url, replace=replace, as_json=json)
