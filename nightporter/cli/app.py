"""The commands and their options; what a command does is imported when it runs, so that ``--help`` is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import nightporter
from nightporter.cli import MOST
from nightporter.cli.db_app import db
from nightporter.cli.memory_app import memory
from nightporter.cli.runner_app import AgentFile, runner, serving
from nightporter.cli.schedules_app import schedules
from nightporter.cli.users_app import users

app = typer.Typer(
    name="nightporter",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    help="A sessionless messaging agent. Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 not running.",
)
journal = typer.Typer(no_args_is_help=True, help="What happened: the append-only record of each principal.")
workspace = typer.Typer(no_args_is_help=True, help="Files of a principal and their history.")
channel = typer.Typer(no_args_is_help=True, help="See why a message was read or shown as it was.")
channel_parse = typer.Typer(no_args_is_help=True, help="Read messages as a channel would; one JSON object a line.")
channel_render = typer.Typer(no_args_is_help=True, help="Show markdown as a channel would; one JSON object a line.")
actions = typer.Typer(no_args_is_help=True, help="What waits for a person's approval.")
app.add_typer(actions, name="actions")
app.add_typer(schedules, name="schedules")
app.add_typer(users, name="users")
app.add_typer(memory, name="memory")
app.add_typer(db, name="db")
app.add_typer(journal, name="journal")
app.add_typer(workspace, name="workspace")
app.add_typer(channel, name="channel")
app.add_typer(runner, name="runner")
channel.add_typer(channel_parse, name="parse")
channel.add_typer(channel_render, name="render")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
User = Annotated[str, typer.Option("--user", help="Speak as this user of the local channel; the owner by default.")]
Whose = Annotated[
    str, typer.Argument(metavar="USER", help="UUID, or a name such as local:ann, email:a@b.org, slack:T1/C1 (a room).")
]
Files = Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, readable=True, help="Files, in order.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nightporter {nightporter.__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")]


@app.callback()
def options(
    version: Version = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Options of every command."""


@app.command()
def up(agent: AgentFile = None) -> int:
    """Start everything on this machine, and keep it running until Ctrl-C."""
    return int(serving().up(agent))


@app.command()
def gateway() -> int:
    """Start the gateway alone: messages in, replies out."""
    return int(serving().gateway())


@app.command()
def chat(
    message: Annotated[str | None, typer.Option("-m", "--message", help="Say this, print the answer, and end.")] = None,
    file: Annotated[list[Path] | None, typer.Option(help="A file to send along; may be given several times.")] = None,
    save: Annotated[Path | None, typer.Option(help="Folder to put the files of the answer into.")] = None,
    user: User = "",
    timeout: Annotated[float, typer.Option(min=0.1, help="With -m: seconds to wait for the answer.")] = 600,
    json: Json = False,
) -> int:
    """Talk with the agent from the terminal."""
    from nightporter.cli import chat as chatting

    return chatting.run(message, file or [], save, user, timeout, as_json=json)


@app.command()
def status(
    principal: Annotated[
        str,
        typer.Argument(
            metavar="[USER]", help="Of this user or room alone, named as elsewhere; of everything if left out."
        ),
    ] = "",
    json: Json = False,
) -> int:
    """Say what runs, and what waits. Exit code 3 when nothing runs."""
    if principal:
        from nightporter.cli import inspecting

        return inspecting.principal_status(principal, as_json=json)
    from nightporter.cli import status as looking

    return looking.run(as_json=json)


@app.command()
def rooms(
    after: Annotated[
        float, typer.Option(min=0, help="Those made after this time (Unix seconds), for the next page.")
    ] = 0,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many, oldest first.")] = 100,
    json: Json = False,
) -> int:
    """List rooms: shared conversations with a workspace, journal and memory of their own."""
    from nightporter.cli import inspecting

    return inspecting.rooms(after, limit, as_json=json)


@app.command()
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="start, memory, telegram, …; all without a name.")
    ] = None,
) -> int:
    """Measure this machine against the budgets, in homes of its own that are removed afterwards."""
    from bench.__main__ import main

    main(names or [])
    return 0


@app.command()
def doctor(json: Json = False) -> int:
    """Check this machine and the settings, and say what to do. Exit code 1 when something has to be done."""
    from nightporter.doctor import command

    return command.run(as_json=json)


@journal.command("show")
def journal_show(
    principal: Whose = "owner",
    after: Annotated[int, typer.Option(min=0, max=MOST, help="Go on after this sequence number, from the oldest.")] = 0,
    limit: Annotated[
        int, typer.Option(min=1, max=MOST, help="At most so many events; the newest, without --after.")
    ] = 50,
    json: Json = False,
) -> int:
    """Show a principal's events."""
    from nightporter.cli import inspecting

    return inspecting.journal_show(principal, after, limit, as_json=json)


@journal.command("verify")
def journal_verify(principal: Whose = "", json: Json = False) -> int:
    """Check the hash chain of a principal's journal, or of all. Exit code 1 when it does not hold."""
    from nightporter.cli import inspecting

    return inspecting.journal_verify(principal, as_json=json)


@journal.command("egress")
def journal_egress(
    principal: Whose = "owner",
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many, the newest.")] = 50,
    json: Json = False,
) -> int:
    """Show what a principal's sandboxes reached outside, or were refused, oldest first."""
    from nightporter.cli import inspecting

    return inspecting.journal_egress(principal, limit, as_json=json)


@workspace.command("ls")
def workspace_ls(
    principal: Whose = "owner",
    path: Annotated[str, typer.Argument(help="A folder of the volume: workspace/… or home/….")] = "workspace",
    json: Json = False,
) -> int:
    """List files of a principal's volume."""
    from nightporter.cli import inspecting

    return inspecting.workspace_ls(path, principal, as_json=json)


@workspace.command("history")
def workspace_history(
    principal: Whose = "owner",
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many generations, the newest.")] = 20,
    json: Json = False,
) -> int:
    """List the generations of a principal's volume."""
    from nightporter.cli import inspecting

    return inspecting.workspace_history(principal, limit, as_json=json)


@workspace.command("state")
def workspace_state(principal: Whose = "owner", json: Json = False) -> int:
    """Show the process state that is kept: terminals, background tasks, and what was withheld."""
    from nightporter.cli import rewinding

    return rewinding.state(principal, as_json=json)


@workspace.command("environment")
def workspace_environment(principal: Whose = "owner", json: Json = False) -> int:
    """Show what is installed in a workspace (pip, npm, apt, uv, cargo), on which system, and what was rebuilt."""
    from nightporter.cli import rewinding

    return rewinding.environment(principal, as_json=json)


Number = Annotated[
    int, typer.Argument(min=0, max=MOST, metavar="N", help="A generation; the last one where it is left out.")
]


@workspace.command("diff")
def workspace_diff(principal: Whose = "owner", number: Number = 0, json: Json = False) -> int:
    """Show what a generation changed; by default what the last turn did."""
    from nightporter.cli import rewinding

    return rewinding.diff(principal, number, as_json=json)


@workspace.command("undo")
def workspace_undo(
    principal: Whose = "owner",
    steps: Annotated[int, typer.Argument(min=1, max=MOST, metavar="N", help="So many turns that changed files.")] = 1,
    to: Annotated[int | None, typer.Option("--to", min=0, max=MOST, help="Back to this generation instead.")] = None,
    json: Json = False,
) -> int:
    """Take a principal's last changes of files back, as a new generation."""
    from nightporter.cli import rewinding

    return rewinding.move(principal, f"/undo @{to}" if to is not None else f"/undo {steps}", as_json=json)


@workspace.command("redo")
def workspace_redo(principal: Whose = "owner", json: Json = False) -> int:
    """Bring back what was undone."""
    from nightporter.cli import rewinding

    return rewinding.move(principal, "/redo", as_json=json)


@workspace.command("restore")
def workspace_restore(
    principal: Whose,
    path: Annotated[str, typer.Argument(metavar="PATH@N", help="What to bring back, as it was in generation N.")],
    json: Json = False,
) -> int:
    """Bring one file or folder back."""
    from nightporter.cli import rewinding

    return rewinding.move(principal, f"/restore {path}", as_json=json)


@workspace.command("export")
def workspace_export(
    principal: Whose,
    file: Annotated[Path, typer.Argument(help="A new file, .tar.zst by custom.")],
    generation: Annotated[int, typer.Option(min=0, max=MOST, help="Which generation; the last one by default.")] = 0,
    json: Json = False,
) -> int:
    """Write a generation of a principal's files into one archive."""
    from nightporter.cli import rewinding

    return rewinding.export(principal, file, generation, as_json=json)


@workspace.command("import")
def workspace_import(
    principal: Whose,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An archive of `workspace export`.")],
    json: Json = False,
) -> int:
    """Make a principal's files those of an archive, as a new generation that `undo` takes back."""
    from nightporter.cli import rewinding

    return rewinding.import_(principal, file, as_json=json)


Code = Annotated[str, typer.Argument(metavar="ID", help="The approval's short name, or its UUID.")]


@actions.command("list")
def actions_list(
    principal: Annotated[str, typer.Argument(metavar="USER", help="Only what is about this user or room.")] = "",
    json: Json = False,
) -> int:
    """List what waits for an answer."""
    from nightporter.cli import deciding

    return deciding.waiting(principal, as_json=json)


@actions.command("approve")
def actions_approve(
    code: Code,
    choice: Annotated[str, typer.Option("--choice", help="One of the answers offered; the first by default.")] = "",
    instead: Annotated[str, typer.Option("--with", help="Approve this instead of what was asked.")] = "",
    json: Json = False,
) -> int:
    """Approve what an approval asks. Exit code 1 when that decides nothing."""
    from nightporter.cli import deciding

    return deciding.answer(code, "approve", choice, instead, as_json=json)


@actions.command("deny")
def actions_deny(code: Code, json: Json = False) -> int:
    """Deny what an approval asks. Exit code 1 when that decides nothing."""
    from nightporter.cli import deciding

    return deciding.answer(code, "deny", "", "", as_json=json)


Bot = Annotated[str, typer.Option("--bot", help="Who the agent is: USER:BOTID, or its address.")]
Markdown = Annotated[list[Path] | None, typer.Argument(exists=True, dir_okay=False, readable=True)]


@channel_parse.command("email")
def parse_email(files: Files, bot: Bot = "") -> int:
    """Read mails (RFC 5322), in order, as one mailbox would get them."""
    from nightporter.cli import channels

    return channels.parse("email", files, bot)


@channel_parse.command("slack")
def parse_slack(files: Files, bot: Bot = "") -> int:
    """Read Slack's deliveries (JSON, or the form body of a slash command), in order."""
    from nightporter.cli import channels

    return channels.parse("slack", files, bot)


@channel_parse.command("telegram")
def parse_telegram(files: Files, bot: Bot = "") -> int:
    """Read Telegram updates (JSON), in order."""
    from nightporter.cli import channels

    return channels.parse("telegram", files, bot)


@channel_render.command("email")
def render_email(files: Markdown = None) -> int:
    """Show markdown (files, or standard input) as a mail's body."""
    from nightporter.cli import channels

    return channels.render("email", files or [])


@channel_render.command("slack")
def render_slack(files: Markdown = None) -> int:
    """Show markdown (files, or standard input) as Slack's mrkdwn."""
    from nightporter.cli import channels

    return channels.render("slack", files or [])


@channel_render.command("telegram")
def render_telegram(files: Markdown = None) -> int:
    """Show markdown (files, or standard input) as Telegram's HTML."""
    from nightporter.cli import channels

    return channels.render("telegram", files or [])
