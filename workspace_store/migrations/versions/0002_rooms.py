"""Rooms: shared conversations that are principals of their own; where a person last wrote at a channel."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "room",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("display_name", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["id"], ["principal.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("room", schema=None) as batch_op:
        batch_op.create_index("room_key", ["channel", "account", "conversation"], unique=True)
        batch_op.create_index("room_age", ["created_at"], unique=False)
    with op.batch_alter_table("inbox", schema=None) as batch_op:
        batch_op.create_index("inbox_channel", ["principal", "channel", "seq"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
