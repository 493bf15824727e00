"""Which deliveries to hooks were taken."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hook_delivery",
        sa.Column("hook", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("inbox", sa.Uuid(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hook", "key"),
    )


def downgrade() -> None:
    op.drop_table("hook_delivery")
