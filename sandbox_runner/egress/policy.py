"""Whether a sandbox may reach a host now: by the settings, by what a person allowed, or by the person's own message.

No name is looked up before it is allowed: a look-up alone would carry words out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sqlalchemy import Connection

from sandbox_runner.egress import naming, rules, texts
from sandbox_runner.egress.answers import Refused
from sandbox_runner.egress.credentials import Keyring
from sandbox_runner.egress.rules import ALL, SAFE_METHODS, WEB_PORTS, Allowed, Rule
from workspace_store import egress_grants, inbox, principal
from workspace_store import tenancy as tenancies
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.egress_grants import Grant
from workspace_store.tenancy import Tenancy


class Asking(Protocol):
    """Puts the question to a person. Returns what to call it, or None where nobody is asked."""

    async def __call__(self, tenancy: Tenancy, host: str, port: int) -> str | None: ...


@dataclass(frozen=True)
class Standing:
    """What the database says of one sandbox and one host."""

    current: bool
    """The sandbox still has its workspace."""
    grant: Grant | None
    named: bool
    """The person's message of the turn that runs names this host."""


@dataclass(frozen=True)
class Policy:
    """Decides. ``ask`` may be slow; everything else is one read."""

    database: Database
    rules: Sequence[Rule]
    keyring: Keyring
    ask: Asking

    async def admit(
        self, tenancy: Tenancy, host: str, port: int, method: str | None, check_literal: Callable[[str, int], None]
    ) -> Allowed:
        """What may happen at this host and port. ``method`` None: a tunnel, whose methods will not be seen.

        ``check_literal`` raises Refused for an address that nobody could allow. Raises Refused.
        """
        allowed = rules.allowed(self.rules, host, port)
        settled = bool(allowed) or self.keyring.implies(host, port)
        standing = await self._standing(tenancy, host, port, known=settled)
        if not standing.current:
            raise Refused(403, "stale_sandbox", texts.stale(), texts.HOW_AGAIN, host, port)
        if settled:
            return allowed
        check_literal(host, port)
        if standing.grant is not None:
            if standing.grant.allowed:
                return ALL
            how = texts.how_to_allow(host, port, None)
            raise Refused(403, "host_refused", texts.denied(host), how, host, port)
        if standing.named and (method is None or method in SAFE_METHODS):
            return ALL
        approval = await self.ask(tenancy, host, port)
        how = texts.how_to_allow(host, port, approval)
        raise Refused(403, "host_not_allowed", texts.not_allowed(host, port), how, host, port, approval)

    async def is_current(self, tenancy: Tenancy) -> bool:
        """Raises DatabaseUnavailable."""
        return await self.database.read(partial(_is_current, tenancy=tenancy))

    async def _standing(self, tenancy: Tenancy, host: str, port: int, *, known: bool) -> Standing:
        def read(connection: Connection) -> Standing:
            current = _is_current(connection, tenancy)
            if known or not current:
                return Standing(current, None, False)
            grant = egress_grants.find(connection, tenancy.principal, host, granted_port(port))
            return Standing(current, grant, grant is None and is_named(connection, tenancy, host, port))

        try:
            return await self.database.read(read)
        except DatabaseUnavailable:
            raise Refused(503, "not_recorded", texts.cannot_record(), texts.HOW_AGAIN, host, port) from None


def granted_port(port: int) -> int:
    """What people allow: a host with its web ports, or one other port of it."""
    return egress_grants.WEB if port in WEB_PORTS else port


def _is_current(connection: Connection, tenancy: Tenancy) -> bool:
    held = tenancies.look(connection, tenancy.principal)
    return (held.host, held.epoch) == (tenancy.host, tenancy.epoch)


def is_named(connection: Connection, tenancy: Tenancy, host: str, port: int) -> bool:
    """Whether the words of the turn that runs name exactly this host and port.

    Only what a person of their own said in this turn: quoted context, files and tools' output are not in these rows,
    and in a room, where several speak, somebody is always asked.
    """
    owner = tenancy.principal
    turn = inbox.running_turn(connection, owner)
    if turn is None or principal.kind(connection, owner) != "user":
        return False
    for row in inbox.taken_by(connection, turn):
        if row.kind == "message" and row.actor == owner:
            text = json.loads(row.envelope).get("text", "")
            if (host, port) in naming.hosts_named(str(text)):
                return True
    return False
