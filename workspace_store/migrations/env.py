"""Alembic's entry: runs migrations on the connection it is handed (workspace_store/schema.py)."""

from alembic import context

config = context.config
context.configure(
    connection=config.attributes["connection"],
    target_metadata=config.attributes.get("metadata"),
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
