from collections.abc import AsyncIterator

import pytest

from nightporter.testing.models import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as found:
        yield found
        found.release()
