"""What is not configured is not imported; the parsers need no platform's library."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("channel", ["slack", "telegram"])
def test_parsing_and_rendering_import_no_platform_library(channel: str) -> None:
    heavy = ["slack_sdk", "slack_bolt", "telegram", "aiohttp", "httpx", "sqlalchemy"]
    code = f"import sys, gateway.{channel}.describe; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
