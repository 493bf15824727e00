"""``/egress``: what the sandbox reached outside, and which hosts people have allowed it."""

from __future__ import annotations

from sqlalchemy import Connection

from router.commands.command import Asked, Command
from sandbox_runner.egress import names, texts
from sandbox_runner.egress.names import BadHost
from sandbox_runner.egress.policy import granted_port
from workspace_store import effects, egress_grants

SHOWN = 15


def _egress(connection: Connection, asked: Asked) -> str:
    words = asked.rest.split()
    if words[:1] == ["revoke"] and len(words) == 2:
        return _revoke(connection, asked, words[1])
    found = effects.recent(connection, asked.principal, SHOWN)
    effects.tell(connection, [effect.id for effect in found if not effect.told])
    grants = egress_grants.standing(connection, asked.principal)
    lines = [*map(texts.granted, grants), *map(texts.listed, found)]
    if grants:
        lines.append(texts.HOW_TO_REVOKE)
    return "\n".join(lines) or texts.NOTHING_YET


def _revoke(connection: Connection, asked: Asked, place: str) -> str:
    """Taking back is never more than what was there: whoever may talk here may do it."""
    try:
        host, port = names.split(place, 443)
    except BadHost as error:
        return str(error)
    if not egress_grants.revoke(connection, asked.principal, host, [granted_port(port)]):
        return texts.NO_SUCH_GRANT
    return texts.revoked(host)


COMMANDS = {
    "egress": Command("lists what your sandbox reached outside; `/egress revoke HOST`", _egress, for_rooms=True),
}
