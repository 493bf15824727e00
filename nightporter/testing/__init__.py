"""For tests of one's own agents: a whole Nightporter with a home of its own, and servers to talk to it through."""

from nightporter.testing.house import House, wait_until

__all__ = ["House", "wait_until"]
