"""What every channel is to the gateway: a name and a way to send a reply, with outcomes that say what is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workspace_store.outbox import Reply


@dataclass(frozen=True)
class Sent:
    """It went out. ``external_id``: the platform's id. ``repeated``: it may have gone out before as well."""

    external_id: str | None = None
    repeated: bool = False


@dataclass(frozen=True)
class Retry:
    """It did not go out; try again after ``seconds`` (None: back off).

    ``outage``: nobody's message would have gone out now: it is tried for days.
    """

    reason: str
    seconds: float | None = None
    outage: bool = False


@dataclass(frozen=True)
class Refused:
    """It will never go out: a dead letter with this reason."""

    reason: str


@dataclass(frozen=True)
class Uncertain:
    """The answer was lost: it may have gone out. ``outage``: as of ``Retry``."""

    reason: str
    outage: bool = False


Outcome = Sent | Retry | Refused | Uncertain


def repeatable(known: Retry | Refused | Uncertain) -> Retry | Refused:
    """What is known of a request that does no harm when it is made twice: in doubt it is made again."""
    return Retry(known.reason, outage=known.outage) if isinstance(known, Uncertain) else known


def in_doubt(known: Retry | Refused | Uncertain) -> Uncertain:
    """What is known of a message of which something may be there already, where ``known`` came in the way."""
    return Uncertain(known.reason, outage=not isinstance(known, Refused) and known.outage)


class Channel(Protocol):
    """A way of talking."""

    name: str

    async def send(self, reply: Reply) -> Outcome:
        """Send one reply. ``reply.was_sending``: an earlier attempt may have gone out; settle that first.

        A channel that can read back does so; one that sends under a stable id sends again; any other sends once more
        and says ``repeated``.

        ``content``: ``text`` (markdown), ``reply`` (``Envelope.reply``), ``buttons`` (a list of ``{"action", "value",
        "label"}``; a press comes in as ``/action value``), ``decided`` (the answer to a press that the pressed question
        says itself). ``reply.edits`` is not None: the text takes the place of that message, and its buttons go; where a
        message cannot be edited, nothing is sent.
        """
        ...
