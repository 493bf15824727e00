"""The guest agent: PID 1 of a sandbox, owner of its terminals and background tasks.

Standard library only and light to import, since every cold wake pays for it. It trusts nothing it reads from the
volume, and what it says is checked again by the host (``sandbox_runner.guest_connection``).
"""
