"""Files that came with messages."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

WAITS = sa.text("status = 'waiting'")


def upgrade() -> None:
    op.create_table(
        "attachment",
        sa.Column("inbox", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("reference", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("content_type", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("blob", sa.String(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("first_tried_at", sa.BigInteger(), nullable=True),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_by", sa.String(), nullable=True),
        sa.Column("claim_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("inbox", "position"),
    )
    with op.batch_alter_table("attachment", schema=None) as batch_op:
        batch_op.create_index(
            "attachment_waiting", ["channel", "next_at"], unique=False, sqlite_where=WAITS, postgresql_where=WAITS
        )


def downgrade() -> None:
    op.drop_table("attachment")
