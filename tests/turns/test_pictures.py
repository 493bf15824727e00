"""Pictures that come with messages are looked at by models that can, in their turn and later, by either provider."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator

import pytest
from blake3 import blake3

from agent import engines
from agent.settings import EngineSettings
from nightporter.testing.models import Asked, ModelServer, Say
from router.envelope import Attachment
from tests.turns.stage import Stage

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SHOWN = base64.b64encode(PNG).decode()


@pytest.fixture
async def models() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server
        server.release()


def settings(server: ModelServer, protocol: str) -> EngineSettings:
    base = server.base_url if protocol == "openai" else server.origin
    return EngineSettings(model=f"{protocol}:local", base_url=base, api_key="key", context_window=64_000)


async def send(stage: Stage, text: str, content: bytes = PNG, kind: str = "image/png") -> list[str]:
    blob = blake3(content).hexdigest()
    attachment = Attachment("map.png", kind, len(content), blob)
    message = await stage.hear(text, attachments=[attachment], contents={blob: content})
    return [str(message)]


def pictures(asked: Asked) -> int:
    return json.dumps(asked.body).count(SHOWN)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_it_is_looked_at_in_its_turn_and_after_it(stage: Stage, models: ModelServer, protocol: str) -> None:
    models.say(Say("A map."), Say("Still a map."))
    engine = engines.make(settings(models, protocol))
    await send(stage, "what is this?")
    await stage.serve(engine)
    await stage.hear("are you sure?")
    await stage.serve(engine)
    assert [pictures(asked) for asked in models.asked] == [1, 1]
    assert "map.png" in models.asked[0].words
    kind = "image_url" if protocol == "openai" else "image"
    assert json.dumps(models.asked[0].body).count(f'"type": "{kind}"') == 1


async def test_another_provider_goes_on_with_it(stage: Stage, models: ModelServer) -> None:
    models.say(Say("A map."), Say("Still a map."))
    await send(stage, "what is this?")
    await stage.serve(engines.make(settings(models, "openai")))
    await stage.hear("are you sure?")
    await stage.serve(engines.make(settings(models, "anthropic")))
    assert [(asked.protocol, pictures(asked)) for asked in models.asked] == [("openai", 1), ("anthropic", 1)]


async def test_a_model_that_cannot_see_is_asked_without_and_not_again_with_it(
    stage: Stage, models: ModelServer
) -> None:
    def blind(asked: Asked) -> Say:
        return Say("this model does not support images", status=400) if pictures(asked) else Say("I see a file.")

    models.script = blind
    engine = engines.make(settings(models, "openai"))
    await send(stage, "what is this?")
    await stage.serve(engine)
    await stage.hear("and now?")
    await stage.serve(engine)
    assert [pictures(asked) for asked in models.asked] == [1, 0, 0]
    assert "map.png" in models.asked[1].words


@pytest.mark.parametrize(
    ("content", "kind"), [(b"<svg/>", "image/svg+xml"), (b"no picture", "image/png"), (PNG, "application/pdf")]
)
async def test_what_is_no_picture_stays_a_file(stage: Stage, models: ModelServer, content: bytes, kind: str) -> None:
    models.say(Say("A file."))
    message = await send(stage, "what is this?", content, kind)
    await stage.serve(engines.make(settings(models, "openai")))
    assert message
    assert "image_url" not in json.dumps(models.asked[0].body)
    assert "/workspace/inbox/map.png" in models.asked[0].words


async def test_one_whose_bytes_are_gone_keeps_no_turn_from_going_on(stage: Stage, models: ModelServer) -> None:
    models.say(Say("A map."), Say("I no longer see it."))
    engine = engines.make(settings(models, "openai"))
    await send(stage, "what is this?")
    await stage.serve(engine)
    stage.blobs.delete(stage.owner, blake3(PNG).hexdigest())
    await stage.hear("and now?")
    await stage.serve(engine)
    assert [pictures(asked) for asked in models.asked] == [1, 0]
