"""Egress, the only way out of a sandbox: a proxy outside, which decides and records; a relay inside, which carries."""
