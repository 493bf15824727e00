"""Vectors: a provider's, the local model's where it is installed, and the librarian that lets none be missing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from aiohttp import web

from agent.embeddings import minilm
from agent.embeddings.embedder import EmbedderAway
from agent.embeddings.local import LocalEmbedder
from agent.embeddings.remote import RemoteEmbedder
from agent.embeddings.wordpiece import WordPiece
from router.librarian import Librarian
from tests.workspace_store.people import person
from workspace_store import memory, memory_index
from workspace_store.database import Database
from workspace_store.memory_search import Vector, cosines, packed, unpacked

PIECES = "[PAD] [UNK] [CLS] [SEP] the heron nest ##s . cafe 你 mill un ##aff ##able"
VOCABULARY = {piece: number for number, piece in enumerate(PIECES.split())}


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The heron nests.", ["the", "heron", "nest", "##s", "."]),
        ("CAFÉ  mill\n", ["cafe", "mill"]),
        ("unaffable", ["un", "##aff", "##able"]),
        ("nest你nest", ["nest", "你", "nest"]),
        ("zebra the", ["[UNK]", "the"]),
        ("x" * 200, ["[UNK]"]),
        ("", []),
    ],
)
def test_words_become_the_longest_known_pieces(text: str, pieces: list[str]) -> None:
    numbers = WordPiece(VOCABULARY).encode(text, 100)
    names = {number: piece for piece, number in VOCABULARY.items()}
    assert [names[number] for number in numbers] == ["[CLS]", *pieces, "[SEP]"]


def test_no_text_is_longer_than_what_is_read() -> None:
    assert len(WordPiece(VOCABULARY).encode("heron " * 10_000, 64)) == 64


def test_a_vector_is_kept_in_half_precision_and_of_length_one() -> None:
    one, same, across = packed([3.0, 4.0]), packed([6.0, 8.0]), packed([4.0, -3.0])
    assert unpacked(one) == pytest.approx((0.6, 0.8), abs=1e-3)
    assert cosines(one, [same, across]) == pytest.approx([1.0, 0.0], abs=1e-3)
    with pytest.raises(ValueError, match="direction"):
        packed([0.0, 0.0])


class Provider:
    """A server with ``/embeddings``: a text's vector says how many herons and mills are in it."""

    def __init__(self) -> None:
        self.status, self.asked, self.broken = 200, list[dict[str, object]](), False
        self.keys = list[str]()

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        self.keys.append(request.headers.get("Authorization", ""))
        if self.status != 200:
            return web.Response(status=self.status)
        rows = [
            {"index": number, "embedding": [1.0 + 5 * text.count("heron"), 1.0 + 5 * text.count("mill")]}
            for number, text in enumerate(body["input"])
        ]
        return web.json_response({"data": rows[:-1] if self.broken else rows[::-1]})


@pytest.fixture
async def provider() -> AsyncIterator[tuple[Provider, str]]:
    found = Provider()
    application = web.Application()
    application.router.add_post("/v1/embeddings", found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield found, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


async def test_a_provider_is_asked_and_its_order_does_not_matter(provider: tuple[Provider, str]) -> None:
    server, url = provider
    embedder = RemoteEmbedder("small", url, "a-key", 5)
    heron, mill = await embedder.embed(["heron", "mill"])
    assert heron is not None
    assert mill is not None
    assert unpacked(heron)[0] > unpacked(heron)[1]
    assert unpacked(mill)[1] > unpacked(mill)[0]
    assert server.asked[0]["model"] == "small"
    assert server.keys == ["Bearer a-key"]
    for status, broken in ((500, False), (200, True)):
        server.status, server.broken = status, broken
        with pytest.raises(EmbedderAway):
            await embedder.embed(["heron", "mill"])
    await embedder.close()
    away = RemoteEmbedder("small", "http://127.0.0.1:1/v1", "", 1)
    with pytest.raises(EmbedderAway):
        await away.embed(["x"])
    await away.close()


def note(database: Database, owner: UUID, body: str) -> None:
    database.write_now(lambda c: memory.write_note(c, owner, uuid4().hex, body, None))


async def test_whatever_has_no_vector_gets_one_and_a_new_model_makes_them_anew(
    database: Database, provider: tuple[Provider, str]
) -> None:
    server, url = provider
    owner, other = person(database), person(database)
    for body in ("a heron", "the mill", "nothing of either"):
        note(database, owner, body)
    note(database, other, "another heron")
    first = RemoteEmbedder("small", url, "", 5)
    librarian = Librarian(database, first)
    server.status = 503
    with pytest.raises(EmbedderAway):
        await librarian.catch_up()
    server.status = 200
    while await librarian.catch_up():
        pass
    (vector,) = await first.embed(["heron heron"])
    assert vector is not None
    hits = database.read_now(lambda c: memory.search(c, owner, "xyzzy", 9, meaning=Vector(first.model, vector)))
    assert hits[0].body == "a heron"
    assert "another heron" not in [hit.body for hit in hits]
    second = RemoteEmbedder("large", url, "", 5)
    while await Librarian(database, second).catch_up():
        pass
    assert database.read_now(lambda c: memory_index.models_of(c, [owner, other])) == [second.model]
    assert database.read_now(lambda c: memory_index.counts(c, owner))["vectors"] == 3
    await first.close()
    await second.close()


installed = pytest.mark.skipif(minilm.archive() is None, reason="the local model and numpy are not installed")


@installed
@pytest.mark.slow
async def test_the_local_model_knows_what_is_alike(tmp_path: Path) -> None:
    embedder = LocalEmbedder(tmp_path / "models")
    texts = ["How do I deploy the server?", "Steps to release the service to production", "A bird nests by the mill"]
    one, alike, other = await embedder.embed(texts)
    assert one is not None
    near, far = cosines(one, [vector for vector in (alike, other) if vector is not None])
    assert near > 0.4 > far
    asked = asyncio.create_task(embedder.embed(texts * 50))
    await asyncio.sleep(0.05)
    asked.cancel()
    assert len(await embedder.embed(["after a question that was given up"])) == 1
    await embedder.close()


def test_a_model_of_the_same_form_gives_vectors_of_length_one(tmp_path: Path) -> None:
    """The arithmetic, on weights made here: the same text has the same vector, in whatever company."""
    pytest.importorskip("numpy")
    place = tiny_model(tmp_path)
    model = minilm.MiniLM(place)
    alone = model.embed(["the heron nests"])[0]
    together = model.embed(["mill", "the heron nests", "the " * 40])
    assert unpacked(together[1]) == pytest.approx(unpacked(alone), abs=2e-3)
    assert cosines(alone, [alone]) == pytest.approx([1.0], abs=1e-2)
    assert cosines(alone, [together[0]])[0] < 0.999


def tiny_model(folder: Path) -> Path:
    import numpy as np

    width, inner, random = 8, 16, np.random.default_rng(7)
    shapes: dict[str, Sequence[int]] = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), width),
        "embeddings.position_embeddings.weight": (64, width),
        "embeddings.token_type_embeddings.weight": (2, width),
    }
    for name in (
        "embeddings.LayerNorm",
        "encoder.layer.0.attention.output.LayerNorm",
        "encoder.layer.0.output.LayerNorm",
    ):
        shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    for name, out, into in (
        ("attention.self.query", width, width), ("attention.self.key", width, width),
        ("attention.self.value", width, width), ("attention.output.dense", width, width),
        ("intermediate.dense", inner, width), ("output.dense", width, inner),
    ):  # fmt: skip
        shapes |= {f"encoder.layer.0.{name}.weight": (out, into), f"encoder.layer.0.{name}.bias": (out,)}
    header, data = {}, b""
    for name, shape in shapes.items():
        raw = random.normal(size=shape).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(header).encode()
    (folder / minilm.WEIGHTS).write_bytes(len(head).to_bytes(8, "little") + head + data)
    (folder / minilm.TOKENIZER).write_text(json.dumps({"model": {"vocab": VOCABULARY}}))
    config = {"num_hidden_layers": 1, "num_attention_heads": 2, "layer_norm_eps": 1e-12}
    (folder / minilm.CONFIG).write_text(json.dumps(config))
    return folder
