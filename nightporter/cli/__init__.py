"""The command line. ``main`` is the one place where an error becomes a sentence and an exit code."""

from __future__ import annotations

import os
import sys

from nightporter.errors import FAILED, MISCONFIGURED, CommandError

INTERRUPTED = 130
MOST = (1 << 62) - 1
"""No number that is typed is larger: the database has none."""


def main() -> None:
    """Run a command and exit: 0 done, 1 failed, 2 usage or configuration, 3 not running, 130 interrupted."""
    debug = "--debug" in sys.argv[1:]
    try:
        code = _run([word for word in sys.argv[1:] if word != "--debug"])
        sys.stdout.flush()
    except CommandError as error:
        if debug:
            raise
        print(error, file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # who reads our output has gone, as `… | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except Exception as error:
        if debug:
            raise
        from nightporter.cli import texts

        # Words that are no UTF-8 name nobody and nothing; paths may be anything, and are never text.
        foreign = isinstance(error, UnicodeEncodeError) and not all(map(_is_text, sys.argv))
        print(texts.NOT_UTF8 if foreign else texts.unexpected(error), file=sys.stderr)
        code = MISCONFIGURED if foreign else FAILED
    sys.exit(code)


def _is_text(word: str) -> bool:
    return word == word.encode("utf-8", "replace").decode()


def _run(arguments: list[str]) -> int:
    from typer.exceptions import Abort, TyperException

    from nightporter.cli.app import app

    try:
        result = app(arguments, prog_name="nightporter", standalone_mode=False)
    except Abort:
        return INTERRUPTED
    except TyperException as error:
        from nightporter.cli import texts

        context = getattr(error, "ctx", None)
        print(texts.usage(error.format_message(), context.command_path if context else "nightporter"), file=sys.stderr)
        return error.exit_code
    return result if isinstance(result, int) else 0
