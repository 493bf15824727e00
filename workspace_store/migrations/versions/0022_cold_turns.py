"""The words of old turns, compressed."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cold_turns",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("first", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("turns", sa.Integer(), nullable=False),
        sa.Column("words", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "first"),
    )
    warm = sa.text("folded IS NOT NULL AND searchable AND messages <> ''")
    op.create_index("turn_record_warm", "turn_record", ["principal", "seq"], sqlite_where=warm, postgresql_where=warm)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
