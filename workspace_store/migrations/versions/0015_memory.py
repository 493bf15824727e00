"""Memory: notes with source, confidence and subject; an index with entries and vectors; what was brought along."""

import sqlalchemy as sa
from alembic import op

from workspace_store import memory_index

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    connection = op.get_bind()
    sqlite = connection.dialect.name == "sqlite"
    for column in (
        sa.Column("kind", sa.String(), nullable=False, server_default="fact"),
        sa.Column("source", sa.String(), nullable=False, server_default="told"),
        sa.Column("confidence", sa.Float(), nullable=False, server_default="1"),
        sa.Column("subject", sa.Text(), nullable=False, server_default=""),
        sa.Column("journaled", sa.BigInteger(), nullable=True),
    ):
        op.add_column("note", column)
    op.create_index("note_subject", "note", ["principal", "subject"])
    op.create_index("note_turn", "note", ["turn"])
    # Turns are made searchable anew, by all their words, once the runner has time.
    op.add_column("turn_record", sa.Column("searchable", sa.Boolean(), nullable=False, server_default=sa.false()))
    due = sa.text("NOT searchable")
    op.create_index(
        "turn_record_unsearchable", "turn_record", ["principal", "seq"], sqlite_where=due, postgresql_where=due
    )
    op.create_table(
        "memory_entry",
        sa.Column("id", BIG_ID, nullable=False, autoincrement=True),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("ref", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("embedded", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("memory_entry_of", "memory_entry", ["principal", "ref"])
    bare = sa.text("NOT embedded")
    op.create_index("memory_entry_bare", "memory_entry", ["id"], sqlite_where=bare, postgresql_where=bare)
    op.create_table(
        "memory_vector",
        sa.Column("entry", BIG_ID, nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("entry"),
    )
    op.create_index("memory_vector_of", "memory_vector", ["principal", "model"])
    op.create_index("memory_vector_model", "memory_vector", ["model"])
    op.create_table(
        "imported",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("imported_key", "imported", ["principal", "key"], unique=True)
    op.create_index("imported_order", "imported", ["principal", "at"])
    op.execute("DROP TABLE memory_search")
    for statement in memory_index.SQLITE_TABLE if sqlite else memory_index.POSTGRESQL_TABLE:
        op.execute(statement)
    standing = sa.text("SELECT id, principal, body, at FROM note WHERE superseded_by IS NULL").columns(
        sa.column("id", sa.Uuid()), sa.column("principal", sa.Uuid())
    )
    memory_index.index_all(
        connection,
        [
            memory_index.Item(row.principal, "note", str(row.id), row.body, row.at)
            for row in connection.execute(standing).all()
        ],
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
