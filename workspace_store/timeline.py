"""What undo goes back along: the states that turns made of a volume, as a line with a present.

Generations are a log; undo and redo move along what it means. A generation that changed no file of the person's (a
command that only looked, falling asleep) is the present one in a newer form, not a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection, select

from workspace_store.checkpoints import CommittedGeneration, generation


@dataclass(frozen=True)
class Timeline:
    """Generation numbers; 0 is the empty volume before the first."""

    past: tuple[int, ...]
    """Oldest first; the last is the present."""
    future: tuple[int, ...]
    """What was taken back, the next to come again first."""

    def before(self, steps: int) -> int | None:
        """The state ``steps`` turns ago; None: there were not so many."""
        return self.past[-1 - steps] if 0 < steps < len(self.past) else None

    def again(self) -> int | None:
        return self.future[0] if self.future else None


def read(connection: Connection, owner: UUID) -> Timeline:
    names = list(CommittedGeneration.__dataclass_fields__)
    rows = connection.execute(
        select(*[generation.c[name] for name in names])
        .where(generation.c.principal == owner)
        .order_by(generation.c.generation)
    )
    return draw(CommittedGeneration(**row._mapping) for row in rows)


def draw(generations: Iterable[CommittedGeneration]) -> Timeline:
    """The line that ascending generations make."""
    past, future = [0], list[int]()
    newer_form: dict[int, int] = {}
    for made in generations:
        restored = made.restored_from
        while restored in newer_form:
            restored = newer_form[restored]
        if restored is not None and restored in past:
            while past[-1] != restored:
                future.insert(0, past.pop())
        elif restored is not None and restored in future:
            while past[-1] != restored:
                past.append(future.pop(0))
        elif _is_a_step(made):
            past.append(made.generation)
            future.clear()
        else:
            newer_form[past[-1]] = made.generation
            past[-1] = made.generation
    return Timeline(tuple(past), tuple(future))


def _is_a_step(made: CommittedGeneration) -> bool:
    changed = made.changed if made.visible is None else made.visible
    return made.turn is not None and changed > 0
