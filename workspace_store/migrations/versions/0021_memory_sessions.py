"""Sessions of talk that are to be looked back at."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "memory_session",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("principal"),
    )
    due = sa.text("due_at IS NOT NULL")
    op.create_index("memory_session_due", "memory_session", ["due_at"], sqlite_where=due, postgresql_where=due)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
