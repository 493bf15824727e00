"""Attacks run against real sandboxes."""

from tests.sandbox_runner.conftest import backend, inside

__all__ = ["backend", "inside"]
