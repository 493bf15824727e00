"""The HTTP interface: messages in, replies and events out, health and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog
from sqlalchemy import Connection
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from gateway.asking.links import Links
from gateway.health import Health
from gateway.local import channel, downloads, texts
from gateway.local.downloads import download, listed
from gateway.local.forms import GivenFile, is_form, read_form
from gateway.local.requests import BadRequest, check_token, read_json, read_message, user_name
from gateway.local.stream import Listeners, stream
from identity import users
from identity.users import Claim, User
from router.inbox import Inbox
from router.texts import moved
from workspace_store import inbox, journal, outbox
from workspace_store.database import Database, DatabaseUnavailable
from workspace_store.disk_room import DiskFull
from workspace_store.inbox import Row

log = structlog.get_logger()

STATUS = {
    "pending": "pending",
    "running": "running",
    "taken": "running",
    "waiting": "waiting",
    "done": "done",
    "failed": "failed",
    "set_aside": "failed",
    "withdrawn": "done",
}

Handler = Callable[[Request], Awaitable[Response]]


@dataclass
class Local:
    """What the HTTP interface stands on."""

    inbox: Inbox
    database: Database
    token: str
    listeners: Listeners
    health: Health
    links: Links | None = None
    """What a question's link is made with; None: questions have none."""

    def app(self, platforms: Sequence[BaseRoute] = ()) -> Starlette:
        """The application; ``platforms``: routes that check a proof of their own."""
        return Starlette(
            routes=[
                *platforms,
                Route("/healthz", self._healthz, methods=["GET"]),
                Route("/readyz", self._guarded(self._readyz), methods=["GET"]),
                Route("/metrics", self._guarded(self._metrics), methods=["GET"]),
                Route("/v1/messages", self._guarded(self._post_message), methods=["POST"]),
                Route(downloads.PATH, self._guarded(self._get_file), methods=["GET"]),
                Route("/v1/messages/{identifier:path}", self._guarded(self._get_message), methods=["GET"]),
                Route("/v1/events", self._guarded(self._events), methods=["GET"]),
            ]
        )

    def _guarded(self, handler: Handler) -> Handler:
        """A handler behind the token, whose errors become clear answers."""

        async def guarded(request: Request) -> Response:
            try:
                check_token(request, self.token)
                return await handler(request)
            except BadRequest as error:
                headers = {"www-authenticate": "Bearer"} if error.status == 401 else {}
                return JSONResponse({"error": error.reason}, error.status, headers)
            except DiskFull:
                return JSONResponse({"error": texts.DISK_FULL}, 503, {"retry-after": "10"})
            except DatabaseUnavailable:
                return JSONResponse({"error": texts.TRY_AGAIN}, 503, {"retry-after": "1"})
            except ClientDisconnect:
                return Response(status_code=400)  # to nobody

        return guarded

    async def _healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, request: Request) -> Response:
        missing = await self.health.missing()
        body = {"ready": not missing, "missing": missing, "channels": self.health.channels_wrong()}
        return JSONResponse(body, 503 if missing else 200)

    async def _metrics(self, request: Request) -> Response:
        return PlainTextResponse(await self.health.metrics(), media_type="text/plain; version=0.0.4")

    async def _post_message(self, request: Request) -> Response:
        files: tuple[GivenFile, ...] = ()
        if is_form(request):
            fields, files = await read_form(request, self.inbox.file_limits)
        else:
            fields = await read_json(request)
        asked = read_message(fields, wordless=bool(files))
        envelope, contents = channel.envelope(
            asked.user, asked.message_id, asked.text, asked.thread, files, more=asked.more
        )
        try:
            accepted = await self.inbox.accept(envelope, contents)
        except OSError as error:
            log.error("files of a message could not be kept", reason=str(error))
            raise BadRequest(503, texts.NOT_KEPT) from error
        if accepted is None:
            await self._user(asked.user)
            raise BadRequest(403, texts.NOT_ADMITTED)
        # Its events come before long.
        self.listeners.names.keep(accepted.message.hex, asked.message_id)
        return JSONResponse({"message_id": asked.message_id, "principal": str(accepted.principal)}, 202)

    async def _answered(self, request: Request) -> tuple[str, str, Row, list[outbox.Said]]:
        """Whose message is asked about, its id, its row and its replies. Raises BadRequest."""
        user = user_name(request.query_params.get("user"))
        identifier = str(request.path_params["identifier"])

        def query(connection: Connection) -> tuple[Row, list[outbox.Said]] | None:
            row = _find(connection, user, identifier)
            return (row, outbox.answers(connection, row.burst or row.id)) if row else None

        found = await self.database.read(query)
        if found is None:
            raise BadRequest(404, texts.NO_MESSAGE)
        return user, identifier, *found

    async def _get_file(self, request: Request) -> Response:
        _, _, row, said = await self._answered(request)
        position, number = request.path_params["reply"], request.path_params["number"]
        return await download(self.inbox.blobs, row.principal, said, position, number)

    async def _get_message(self, request: Request) -> Response:
        user, identifier, row, said = await self._answered(request)
        if self.links is not None:
            said = await self.links.added_to_said(said)
        replies = [
            {
                "text": reply.text,
                "at": reply.at / 1e6,
                **({"files": listed(reply, position, identifier, user)} if reply.files else {}),
            }
            for position, reply in enumerate(said)
        ]
        return JSONResponse({"status": STATUS[row.status], "replies": replies})

    async def _events(self, request: Request) -> Response:
        name = user_name(request.query_params.get("user"))
        user = await self._user(name)
        after = await self._resume_after(request, user.id)
        events = stream(self.database, self.listeners, user.id, after)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _user(self, name: str) -> User:
        """Who is called so. Raises BadRequest: nobody, or somebody who has moved away."""
        claim = Claim("local", "", name)
        user = await self.database.read(partial(users.by_identity, claim=claim))
        if user is None:
            raise BadRequest(404, texts.NO_USER)
        if user.moved_to is not None:
            raise BadRequest(410, moved(user.moved_to))
        return user

    async def _resume_after(self, request: Request, principal: UUID) -> int:
        """The seq to go on after: the last one the client has seen, else the journal's head."""
        given = request.headers.get("last-event-id") or request.query_params.get("after")
        if not given:
            return (await self.database.read(partial(journal.head, owner=principal)))[0]
        owner, _, seq = given.rpartition(":")
        if not (seq.isascii() and seq.isdigit()) or len(seq) > 18 or (owner and owner != str(principal)):
            raise BadRequest(400, texts.BAD_EVENT_ID)
        return int(seq)


def _find(connection: Connection, user: str, identifier: str) -> Row | None:
    return inbox.find(connection, channel.key(user, identifier))
