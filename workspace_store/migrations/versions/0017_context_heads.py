"""The head of a context, frozen until turns are folded into it."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "context_head",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal"),
    )


def downgrade() -> None:
    op.drop_table("context_head")
