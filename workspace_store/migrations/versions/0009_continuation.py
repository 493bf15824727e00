"""Where a person went on with a thread elsewhere."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "continuation",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("left", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["principal"], ["principal.id"]),
        sa.PrimaryKeyConstraint("principal"),
    )


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
