"""Timers of sandboxes: the lines of their crontabs."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "timer",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("spec", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("next_due", sa.BigInteger(), nullable=True),
        sa.Column("last_due", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["principal"], ["principal.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("timer_due", "timer", ["next_due"])
    op.create_index("timer_of", "timer", ["principal"])


def downgrade() -> None:
    op.drop_table("timer")
