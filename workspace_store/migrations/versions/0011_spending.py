"""What models cost, by principal, day and model."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "spending",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("answers", sa.BigInteger(), nullable=False),
        sa.Column("unpriced", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("micro_usd", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "day", "model"),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
