"""Commands that go back in the history of files. They become turns, under the lease: nothing here acts."""

from __future__ import annotations

from sqlalchemy import Connection

from router.commands.command import Asked, Command
from sandbox_runner.rewind import INBOX_KIND


def _by_a_turn(connection: Connection, asked: Asked) -> str:
    raise AssertionError("a command that starts a turn is not answered at intake")


def _command(summary: str) -> Command:
    return Command(summary, _by_a_turn, for_rooms=True, starts=INBOX_KIND)


COMMANDS = {
    "diff": _command("shows what the last turn changed in your files, `/diff N` what generation N did"),
    "undo": _command("takes the last turn's changes of files back, `/undo N` those of N turns, `/undo @N` to one"),
    "redo": _command("brings back what was undone"),
    "restore": _command("brings one file back: `/restore PATH@N`, as it was in generation N"),
}
