"""Messages that settle and belong together; what was changed after it was said."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inbox", sa.Column("settles_at", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("inbox", sa.Column("burst", sa.Uuid(), nullable=True))
    in_burst = sa.text("burst IS NOT NULL")
    op.create_index("inbox_burst", "inbox", ["burst"], sqlite_where=in_burst, postgresql_where=in_burst)
    op.create_table(
        "message_change",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("message", sa.Uuid(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("untold", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    untold = sa.text("untold")
    op.create_index(
        "message_change_untold", "message_change", ["principal", "at"], sqlite_where=untold, postgresql_where=untold
    )
    op.create_index("message_change_of", "message_change", ["message"])


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
