"""The email channel: reading mail as a careful person would, and answering it in its thread.

Nothing here knows the inbox, the outbox or the engine: the server and the relay are given callables.
"""
