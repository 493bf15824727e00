"""Commands that answer approvals: ``/approve``, ``/deny``; and ``/actions``, which lists what waits."""

from __future__ import annotations

import re

from sqlalchemy import Connection

from router import actions, texts
from router.commands.command import Asked, Command, Said
from workspace_store import approvals
from workspace_store.approvals import Verdict

_WITH = re.compile(r"\s+with\s+", re.IGNORECASE)

LOGINS = ("smtp_auth", "token")
"""Proofs that need a secret: stronger than what a mail proves by itself."""


def _approve(connection: Connection, asked: Asked) -> str | Said:
    return _answer(connection, asked, "approve")


def _deny(connection: Connection, asked: Asked) -> str | Said:
    return _answer(connection, asked, "deny")


def _answer(connection: Connection, asked: Asked, verdict: Verdict) -> str | Said:
    # What follows on other lines is a greeting or a signature.
    line, _, instead = _WITH.sub("\n", asked.rest.partition("\n")[0], 1).partition("\n")
    code, choice, *_ = [*(word.strip("`.,") for word in line.split()), "", ""]
    if not code:
        return texts.WHICH_APPROVAL
    found = approvals.find(connection, code)
    if asked.room and found is not None and found.principal != asked.room.id:
        return texts.NOT_OF_THIS_ROOM
    answered = actions.answer(
        connection, code, asked.user, verdict, choice=choice, needs_token=_by_mail(asked), hooks=asked.hooks,
        via="button" if asked.envelope.reply.get("pressed") else asked.envelope.channel,
        instead=instead.strip().strip("`"),
    )  # fmt: skip
    return Said(answered.text, decided=answered.decision.outcome == "decided", woken=answered.woken)


def _actions(connection: Connection, asked: Asked) -> str:
    if asked.room:
        found = approvals.waiting(connection, asked.room.id)
    else:
        found = approvals.waiting(connection, None, asked.user)
    lines = [texts.waiting(one, one.mail_code if _by_mail(asked) else one.code) for one in found]
    return "\n".join(lines) or texts.NOTHING_WAITS


def _by_mail(asked: Asked) -> bool:
    """Whether it came as mail that proves itself, not by a login: then a question takes its one-time code."""
    return asked.envelope.channel == "email" and asked.envelope.sender.proof not in LOGINS


COMMANDS = {
    "actions": Command("lists what waits for your approval", _actions, for_rooms=True),
    "approve": Command(
        "approves: `/approve ID`, `/approve ID CHOICE`, `/approve ID with WHAT`",
        _approve,
        for_rooms=True,
    ),
    "deny": Command("denies: `/deny ID`", _deny, for_rooms=True),
}
