"""Inbox, wake-up jobs and the worker that serves them, sweeper."""
