"""What every provider's client is given beside its own settings."""

NO_KEY = "none"
"""Sent where no key is set: servers of one's own often want none, and the libraries refuse to start without any."""

CONNECT_SECONDS = 5.0
"""A server that does not even take the connection is away: the person is told so soon."""
