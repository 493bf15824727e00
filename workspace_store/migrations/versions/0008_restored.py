"""Generations say what they were restored from, and how much of a change was the person's."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("generation", schema=None) as batch_op:
        batch_op.add_column(sa.Column("visible", sa.Integer(), nullable=True))
        batch_op.add_column(sa.Column("restored_from", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
