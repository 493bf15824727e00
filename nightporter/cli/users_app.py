"""``nightporter users``: the commands and their options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

users = typer.Typer(no_args_is_help=True, help="Users: who there is, who may come in, whose channels are one person's.")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
Code = Annotated[str, typer.Argument(metavar="CODE", help="The code that waits, as `users list` shows it.")]
Who = Annotated[
    str,
    typer.Argument(
        metavar="USER", help="UUID, its beginning, or a name: email:ann@example.org, slack:T1/U1, telegram:42, owner."
    ),
]
Identity = Annotated[
    str, typer.Argument(metavar="CHANNEL:ID", help="email:ann@example.org, slack:T1/U1 or telegram:42.")
]


def _do(verb: str, *words: str, yes: bool, as_json: bool) -> int:
    from nightporter.cli import administering

    return administering.do(verb, words, yes=yes, as_json=as_json)


@users.command("list")
def users_list(
    after: Annotated[str, typer.Option("--after", metavar="USER", help="Those after this one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 100,
    json: Json = False,
) -> int:
    """List users in the order they came, a page at a time; then who waits to be let in."""
    from nightporter.cli import administering

    return administering.listed(after, limit, as_json=json)


@users.command("show")
def users_show(user: Who, json: Json = False) -> int:
    """Say who a user is, where they are known, what they have, and what was done about them."""
    from nightporter.cli import administering

    return administering.shown(user, as_json=json)


@users.command("approve")
def users_approve(code: Code, json: Json = False) -> int:
    """Let a stranger in who waits with a code."""
    return _do("approve", code, yes=True, as_json=json)


@users.command("refuse")
def users_refuse(code: Code, json: Json = False) -> int:
    """Turn a stranger away who waits with a code."""
    return _do("refuse", code, yes=True, as_json=json)


@users.command("link")
def users_link(user: Who, identity: Identity, yes: Yes = False, json: Json = False) -> int:
    """Vouch that whoever comes by an identity is this user."""
    return _do("link", user, identity, yes=yes, as_json=json)


@users.command("unlink")
def users_unlink(identity: Identity, yes: Yes = False, json: Json = False) -> int:
    """Take an identity from its user; whoever comes by it afterwards is a stranger."""
    return _do("unlink", identity, yes=yes, as_json=json)


@users.command("merge")
def users_merge(keep: Who, absorb: Who, yes: Yes = False, json: Json = False) -> int:
    """Make two users one. Nothing is copied; `unmerge` gives back what came from each."""
    return _do("merge", keep, absorb, yes=yes, as_json=json)


@users.command("unmerge")
def users_unmerge(absorbed: Who, yes: Yes = False, json: Json = False) -> int:
    """Make two users again of one that was merged."""
    return _do("unmerge", absorbed, yes=yes, as_json=json)


@users.command("role")
def users_role(
    user: Who, role: Annotated[str, typer.Argument(metavar="ROLE", help="admin or member.")], yes: Yes = False,
    json: Json = False,
) -> int:  # fmt: skip
    """Make a user an administrator, or a member."""
    return _do("role", user, role, yes=yes, as_json=json)


@users.command("block")
def users_block(user: Who, yes: Yes = False, json: Json = False) -> int:
    """Stop what runs for a user, end their sandbox, and answer nothing more."""
    return _do("block", user, yes=yes, as_json=json)


@users.command("unblock")
def users_unblock(user: Who, yes: Yes = False, json: Json = False) -> int:
    """Hear a blocked user again."""
    return _do("unblock", user, yes=yes, as_json=json)


@users.command("export")
def users_export(
    user: Who,
    file: Annotated[Path, typer.Argument(help="The bundle to write (.tar); it must not exist.")],
    grant: Annotated[
        str, typer.Option("--grant", metavar="GRANT", help="Move: what `users grant` at the new installation printed.")
    ] = "",
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="For what is running, before it is given up.")
    ] = 60.0,
    json: Json = False,
) -> int:
    """Write all that is held of a user into one signed bundle: a copy, or with `--grant` to move elsewhere.

    A copy leaves them here. With a grant they leave: nobody here acts for them any more, and whoever writes is told
    where they have gone. Run again after it was cut off, it goes on. Exit code 1: nothing was done.
    """
    from nightporter.cli import moving

    return moving.export(user, file, grant, wait, as_json=json)


@users.command("grant")
def users_grant(
    user: Annotated[str, typer.Argument(metavar="UUID", help="Who may come, as `users show` there says.")],
    source: Annotated[
        str, typer.Option("--from", metavar="KEY", help="The old installation's key, as `users show` there says.")
    ],
    hours: Annotated[float, typer.Option(min=0.01, max=720, help="How long it may be used.")] = 24.0,
    at: Annotated[
        str,
        typer.Option("--at", metavar="PLACE", help="What the old place calls this one; `runner.host` if not given."),
    ] = "",
    json: Json = False,
) -> int:
    """Let one user's agent come here, once, from one other installation; prints the grant for `users export` there."""
    from nightporter.cli import moving

    return moving.grant(user, source, hours, at, as_json=json)


@users.command("revoke")
def users_revoke(
    grant: Annotated[str, typer.Argument(metavar="GRANT", help="What `users grant` here printed.")], json: Json = False
) -> int:
    """Take a grant back that nobody has used; prints a proof of that for `users return` at the old installation."""
    from nightporter.cli import moving

    return moving.revoke(grant, as_json=json)


@users.command("return")
def users_return(
    user: Who,
    proof: Annotated[str, typer.Argument(metavar="PROOF", help="What `users revoke` at the new installation printed.")],
    json: Json = False,
) -> int:
    """Let a user live here again who left and never arrived."""
    from nightporter.cli import moving

    return moving.come_back(user, proof, as_json=json)


@users.command("import")
def users_import(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="What `users export` wrote.")
    ],
    fork: Annotated[
        str,
        typer.Option("--fork", metavar="NAME", help="As a new person with a new UUID, reached here as `local:NAME`."),
    ] = "",
    take: Annotated[
        list[str], typer.Option("--take", metavar="CHANNEL:ID", help="Theirs from now on, whoever has it here.")
    ] = [],  # noqa: B006
    leave: Annotated[
        list[str], typer.Option("--leave", metavar="CHANNEL:ID", help="Stays with whoever has it here.")
    ] = [],  # noqa: B006
    gigabytes: Annotated[float, typer.Option("--max-gigabytes", min=0.001, help="Refuse a larger bundle.")] = 100.0,
    yes: Yes = False,
    json: Json = False,
) -> int:
    """Take in a user who left another installation by a grant of this one: same UUID, everything as it was.

    Every hash and the signature are checked before anything is taken in. A copy that was not granted is refused, or
    becomes a new person with `--fork`. Exit code 1: nothing was done.
    """
    from nightporter.cli import moving

    return moving.bring(file, fork, take, leave, gigabytes, yes=yes, as_json=json)


@users.command("import-history")
def users_import_history(
    user: Who,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="JSON lines.")],
    json: Json = False,
) -> int:
    """Bring a user's talk from elsewhere along, to be searched: JSON lines with `id`, `time`, `role`, `text`.

    The same `id` again is the same message. Exit code 1 when lines were bad; all others are taken.
    """
    from nightporter.cli import remembering

    return remembering.import_history(user, file, as_json=json)


@users.command("forget")
def users_forget(user: Who, yes: Yes = False, json: Json = False) -> int:
    """Erase a user's data everywhere; a signed receipt is kept, and the journal's chain still verifies."""
    from nightporter.cli import keeping

    return keeping.forget(user, yes=yes, as_json=json)
