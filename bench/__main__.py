"""All budgets: `python -m bench`."""

from __future__ import annotations

from bench import command, memory, reply, resolution, start, telegram
from bench.table import show

if __name__ == "__main__":
    show(
        [
            start.measure(),
            memory.measure(),
            reply.measure(),
            *command.measure(),
            *telegram.measure(),
            *resolution.measure(),
        ]
    )
