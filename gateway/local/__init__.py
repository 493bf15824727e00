"""The local channel: HTTP with a bearer token, and what `nightporter chat` is made of."""
