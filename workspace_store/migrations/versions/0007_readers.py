"""Who reads what has one reader, and whether the agent takes part in a thread."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "reader",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    slack = sa.text("channel = 'slack'")
    op.create_index(
        "inbox_in_thread", "inbox", ["channel", "account", "conversation", "thread"],
        sqlite_where=slack, postgresql_where=slack,
    )  # fmt: skip


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
