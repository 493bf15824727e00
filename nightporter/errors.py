"""Errors that end a command: what happened, what to do, and the exit code that says so."""

from __future__ import annotations

FAILED = 1
MISCONFIGURED = 2
NOT_RUNNING = 3


class CommandError(Exception):
    """Ends a command with sentences for a person, without a traceback."""

    exit_code = FAILED

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


class ConfigurationError(CommandError):
    """Settings, arguments or the machine are not as they have to be; ends with exit code 2."""

    exit_code = MISCONFIGURED


class NotRunning(CommandError):
    """What the command wanted to talk to does not answer; ends with exit code 3."""

    exit_code = NOT_RUNNING
