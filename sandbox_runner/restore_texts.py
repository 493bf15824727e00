"""What a person reads where what was recorded and what is there do not fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent import texts
from sandbox_runner.egress import texts as egress_texts
from workspace_store.effects import Effect

CUT = "what it said is gone"
_REMEDY = (
    "Whoever runs this machine sees where with `nightporter journal verify`, and puts things right with "
    "`nightporter db restore`."
)


def fault(seq: int, what: str) -> str:
    return f"journal event {seq}: {what}"


def checkpoint_ahead(checkpoint: int, head: int) -> str:
    return f"the last checkpoint covers event {checkpoint}, and the journal ends at {head}"


def generations_differ(checkpoint: int, committed: int) -> str:
    return f"the last checkpoint names generation {checkpoint} of your files, and the database generation {committed}"


def not_begun(what: str) -> str:
    return (
        f"I did not act on this: my records of what came before are not whole ({what}), and I do not act on guesses. "
        f"Nothing was touched. {_REMEDY} Say it again then."
    )


def not_gone_on(what: str) -> str:
    return (
        f"I was cut off in this, and did not go on: my records of what I had done are not whole ({what}), so it may "
        f"have been done in part, in full or not at all. {_REMEDY} Look at what is there before you ask for it again."
    )


def output_lost(reason: str) -> str:
    return f"(The whole output of an earlier step is lost ({reason}); what is shown of it is all that is left.)"


def unrecorded(effects: Sequence[Effect]) -> str:
    return (
        f"(I was cut off in this, and no recorded step accounts for what went out: {egress_texts.lines(effects)}. "
        "It was done; check before it is repeated.)"
    )


def asked_equally(name: str, arguments: Mapping[str, Any]) -> str:
    what = texts.code(texts.doing(name, arguments)[:200])
    return f"(I was cut off and had to think again. {what} had been requested before; it was not done a second time.)"


def asked_differently(name: str, arguments: Mapping[str, Any], before: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    earlier = ", ".join(texts.code(texts.doing(*one)[:200]) for one in before[:5])
    return (
        f"(I was cut off, had to think again and decided otherwise: {earlier} had been requested before, and may have "
        f"been done. {texts.code(texts.doing(name, arguments)[:200])} is a new request.)"
    )
