"""Where the command line meets the other packages: each function is one call of them, and nothing else is.

What comes back is plain: dictionaries that are printed as they are with ``--json``.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightporter.cli import texts
from nightporter.errors import CommandError
from nightporter.settings import Settings

if TYPE_CHECKING:
    from workspace_store.database import Database


def journal_events(settings: Settings, principal: str, after: int, limit: int) -> list[dict[str, Any]]:
    """Events of a principal, oldest first: ``seq``, ``at`` (Unix seconds), ``kind``, ``turn``, ``body``."""
    journal = importlib.import_module("workspace_store.journal")
    found = _read(
        settings,
        lambda connection, owner: journal.read(connection, owner, after=after, limit=limit, newest=not after),
        principal,
    )
    return [
        {
            "seq": event.seq, "at": event.at / 1e6, "kind": event.kind, "turn": event.turn, "epoch": event.epoch,
            "body": event.body, "hash": event.hash,
        }
        for event in found
    ]  # fmt: skip


def effects(settings: Settings, principal: str, limit: int) -> list[dict[str, Any]]:
    """The newest effects of a principal, oldest first. Times in Unix seconds; digests are hex SHA-256."""
    ledger = importlib.import_module("workspace_store.effects")
    found = _read(settings, lambda connection, owner: ledger.recent(connection, owner, limit), principal)
    return [
        {
            "id": row.id, "at": row.at / 1e6, "settled_at": row.settled_at and row.settled_at / 1e6,
            "method": row.method, "host": row.host, "port": row.port, "status": row.status, "outcome": row.outcome,
            "bytes_out": row.bytes_out, "bytes_in": row.bytes_in, "reason": row.reason, "turn": row.turn,
            "epoch": row.sandbox_epoch, "path_digest": row.path_digest, "request_digest": row.request_digest,
        }
        for row in reversed(found)
    ]  # fmt: skip


def verify_journal(settings: Settings, principal: str) -> tuple[int, list[str]]:
    """Events checked, and a sentence for each fault; of all principals when ``principal`` is empty."""
    journal = importlib.import_module("workspace_store.journal")
    principals = importlib.import_module("workspace_store.principal")
    if principal:
        checked = [_read(settings, journal.verify, principal)]
    else:
        owners = _read(settings, lambda connection, _: principals.everyone(connection))
        checked = [
            _read(settings, lambda connection, _, owner=owner: journal.verify(connection, owner)) for owner in owners
        ]
    faults = [fault for _, found in checked for fault in found]
    return sum(count for count, _ in checked), [texts.fault(str(f.principal), f.seq, f.what) for f in faults]


def volume_entries(settings: Settings, principal: str, path: str) -> list[dict[str, Any]]:
    """What is in a folder of a volume: ``path``, ``kind`` (``f``, ``d``, ``l``), ``size``, ``modified`` (seconds)."""
    tenancies = importlib.import_module("workspace_store.tenancy")
    packs = importlib.import_module("workspace_store.packs")
    beneath = importlib.import_module("workspace_store.beneath")
    held, owner = _read(settings, lambda connection, owner: (tenancies.look(connection, owner), owner), principal)
    if not held.generation:
        return []
    with contextlib.ExitStack() as opened:
        try:
            volume = opened.enter_context(settings.kept_in.volumes().open(owner))
            volume.refresh()
            entries = volume.ls(_in_volume(path), held.generation)
        except (FileNotFoundError, beneath.UnsafePath) as error:
            raise CommandError(texts.no_such_path(path)) from error
        except packs.VolumeError as error:
            raise CommandError(str(error)) from error
    return [
        {"path": entry.path, "kind": entry.kind, "size": entry.size, "modified": entry.mtime_ns / 1e9}
        for entry in entries
    ]


def _in_volume(path: str) -> str:
    """A path as it is seen inside the sandbox, or relative to the volume, as the volume names it."""
    inside = path.replace("/home/porter", "home", 1) if path.startswith("/home/porter") else path
    return inside.strip("/") or "workspace"


def volume_generations(settings: Settings, principal: str, limit: int) -> list[dict[str, Any]]:
    """Generations of a volume, newest first: ``number``, ``at`` (Unix seconds), ``files``, ``note``."""
    checkpoints = importlib.import_module("workspace_store.checkpoints")
    found = _read(settings, lambda connection, owner: checkpoints.generations(connection, owner, limit), principal)
    return [
        {
            "number": row.generation, "at": row.at / 1e6, "files": row.files, "bytes": row.bytes,
            "changed": row.changed, "moving": row.moving, "turn": row.turn, "note": row.note,
        }
        for row in found
    ]  # fmt: skip


def principal_status(settings: Settings, principal: str) -> dict[str, Any]:
    """Of a user or room: ``waiting`` messages, whether its sandbox is ``awake``, ``generation``, ``last_turn``; and its
    ``briefing``: what was ``done``, is ``planned`` and ``promised``, is ``waiting``, has ``changed`` since."""
    briefing = importlib.import_module("agent.briefing")
    checkpoints = importlib.import_module("workspace_store.checkpoints")
    principals = importlib.import_module("workspace_store.principal")
    inbox_counts = importlib.import_module("workspace_store.inbox_counts")
    tenancies = importlib.import_module("workspace_store.tenancy")

    def query(connection: Any, owner: Any) -> dict[str, Any]:
        held, latest = tenancies.look(connection, owner), checkpoints.latest(connection, owner)
        return {
            "principal": str(owner), "kind": principals.kind(connection, owner),
            "waiting": inbox_counts.waiting(connection, owner), "awake": held.host is not None,
            "generation": held.generation, "last_turn": latest.at / 1e6 if latest else None,
            "briefing": briefing.read(connection, owner).to_json(),
        }  # fmt: skip

    found: dict[str, Any] = _read(settings, query, principal)
    return found


def rooms(settings: Settings, after: float, limit: int) -> list[dict[str, Any]]:
    """Rooms, oldest first: ``principal``, ``name`` as one types it, ``title``, ``at`` (Unix seconds)."""
    listed = importlib.import_module("identity.rooms").listed
    harmless = importlib.import_module("identity.names").harmless
    found = _read(settings, lambda connection, _: listed(connection, int(after * 1e6), limit))
    return [
        {"principal": str(room.id), "name": room.name, "title": harmless(room.display_name), "at": made / 1e6}
        for room, made in found
    ]


def _read(settings: Settings, query: Callable[..., Any], principal: str | None = None) -> Any:
    """Run a query with the connection and the principal's id (None where no principal is asked for)."""
    return run(settings, query, principal, "read_now")


def run(settings: Settings, query: Callable[..., Any], principal: str | None, door: str) -> Any:
    """Run a query by a ``door`` of the database (``read_now``, ``write_now``), as ``_read`` does."""

    def transaction(connection: Any) -> Any:
        return query(connection, None if principal is None else _principal(connection, principal))

    with opened(settings) as database:
        return getattr(database, door)(transaction)


@contextlib.contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """The database. Raises CommandError where there is none yet, it cannot be reached, or somebody is away."""
    database = importlib.import_module("workspace_store.database")
    path = database.sqlite_path(settings.database_url)
    if path is not None and not path.exists():
        raise CommandError(texts.no_database(path))
    found = database.Database(settings.database_url)
    try:
        yield found
    except database.DatabaseUnavailable as error:
        raise CommandError(texts.database_unavailable(str(error))) from error
    except importlib.import_module("workspace_store.principal").Away as error:
        raise CommandError(texts.not_done(str(error))) from error
    finally:
        found.close()


def _principal(connection: Any, name: str) -> Any:
    rooms = importlib.import_module("identity.rooms")
    users = importlib.import_module("identity.users")
    found = users.find(connection, name) or rooms.find(connection, name)
    if found is None:
        raise CommandError(texts.nobody_called(name))
    return found.id


def waiting_approvals(settings: Settings, principal: str) -> list[dict[str, Any]]:
    """What waits for an answer, of a principal or of all."""
    approvals = importlib.import_module("workspace_store.approvals")
    actions = importlib.import_module("router.actions")
    found = _read(settings, lambda connection, owner: approvals.waiting(connection, owner), principal or None)
    return [actions.as_json(one) for one in found]


def answer_approval(settings: Settings, code: str, verdict: str, choice: str, instead: str) -> dict[str, Any]:
    """Answer an approval as the operator of this machine; ``outcome``, what was ``said``, and the approval.

    Rings no bell: gateways and runners look each second.
    """
    actions = importlib.import_module("router.actions")
    hooks = importlib.import_module("nightporter.approval_hooks").HOOKS

    def answer(connection: Any, _: Any) -> Any:
        return actions.answer(connection, code, None, verdict, via="cli", hooks=hooks, choice=choice, instead=instead)

    answered = run(settings, answer, None, "write_now")
    found = answered.decision.approval
    about = actions.as_json(found) if found else {}
    return {"outcome": answered.decision.outcome, "said": answered.text, **about}


def undelivered(settings: Settings) -> list[dict[str, Any]]:
    """Replies that were given up, or possibly went out twice: ``state``, ``channel``, ``reason``, ``reply``."""
    replies = importlib.import_module("workspace_store.undelivered")
    found = _read(settings, lambda connection, _: replies.newest(connection))
    return [
        {"state": row.state, "channel": row.channel, "reason": row.reason, "reply": str(row.reply)} for row in found
    ]


def parsed(channel: str, files: Sequence[Path], bot: str) -> Iterator[dict[str, Any]]:
    """How each delivery of a channel is read, as one sequence."""
    describe = importlib.import_module(f"gateway.{channel}.describe").describe
    yield from describe(files) if channel == "email" else describe(files, bot)


def rendered(channel: str, markdown: str) -> dict[str, Any]:
    """``chunks``: the messages that this markdown becomes; for mail also its ``text`` and ``html``."""
    if channel == "email":
        mail = importlib.import_module("gateway.email.render").render(markdown)
        return {"chunks": [mail.text] if mail.text else [], "text": mail.text, "html": mail.html}
    found: dict[str, Any] = importlib.import_module(f"gateway.{channel}.describe").describe_rendered(markdown)
    return found
