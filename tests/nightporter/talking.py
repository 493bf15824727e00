"""A stand-in gateway: the HTTP interface over a real socket, with an agent that repeats what it hears."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nightporter.cli.server import Server
from workspace_store.section import Address

PRINCIPAL = "00000000-0000-4000-8000-000000000001"
TOKEN = "a-token"


@dataclass
class Gateway:
    """What survives a restart of the stand-in: messages and the journal."""

    address: Address
    said: dict[str, str] = field(default_factory=dict)
    posts: list[str] = field(default_factory=list)
    journal: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    news: list[dict[str, Any]] = field(default_factory=list)
    status: str = "done"
    refuse_first: int = 0
    resumed_after: list[str] = field(default_factory=list)

    @property
    def server(self) -> Server:
        return Server(self.address, TOKEN)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/messages", self.post, methods=["POST"]),
                Route("/v1/messages/{identifier}", self.get),
                Route("/v1/events", self.events),
                Route("/healthz", self.ready),
                Route("/readyz", self.ready),
                Route("/metrics", self.metrics),
            ]
        )

    async def post(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"error": "no"}, 401)
        body = await request.json()
        self.posts.append(body["message_id"])
        if self.refuse_first:
            self.refuse_first -= 1
            return JSONResponse({"error": "the database is away"}, 503)
        if body["message_id"] not in self.said:
            self.said[body["message_id"]] = body["text"]
            self.news.append({"text": "working\x1b[2J\n", "turn": "1"})
            self.journal.append(("reply.queued", {"message_id": body["message_id"], "text": f"heard {body['text']}"}))
        return JSONResponse({"message_id": body["message_id"], "principal": PRINCIPAL}, 202)

    async def get(self, request: Request) -> Response:
        said = self.said.get(request.path_params["identifier"])
        if said is None:
            return JSONResponse({"error": "no message of that id"}, 404)
        return JSONResponse({"status": self.status, "replies": [{"text": f"heard {said}", "at": 1.0}]})

    async def events(self, request: Request) -> Response:
        if not self.journal:
            return JSONResponse({"error": "nobody of that name has written yet"}, 404)
        last = request.headers.get("last-event-id") or request.query_params.get("after")
        self.resumed_after.append(last or "")
        seq = int(last.rpartition(":")[2]) if last else len(self.journal)

        async def stream() -> AsyncIterator[str]:
            nonlocal seq
            while True:
                while self.news:
                    yield f"event: progress\ndata: {json.dumps(self.news.pop(0))}\n\n"
                for kind, body in self.journal[seq:]:
                    seq += 1
                    yield f"id: {PRINCIPAL}:{seq}\nevent: {kind}\ndata: {json.dumps(body)}\n\n"
                await asyncio.sleep(0.01)

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def ready(self, request: Request) -> Response:
        return JSONResponse({"ready": True, "missing": []})

    async def metrics(self, request: Request) -> Response:
        return Response('# HELP x\nnightporter_inbox_waiting 3.0\nnightporter_outbox_replies{status="dead"} 1.0\n')

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve until the block ends, then break off every connection, as a killed server does."""
        listening = socket.create_server((self.address.host, self.address.port))
        server = uvicorn.Server(uvicorn.Config(self.app(), log_config=None, timeout_graceful_shutdown=0))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            yield
        finally:
            server.should_exit = server.force_exit = True
            await serving
            listening.close()


def free_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return Address("127.0.0.1", listening.getsockname()[1])
