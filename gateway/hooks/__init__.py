"""Hooks: what other programs tell the agent, each under a name and a secret of its own."""
