"""Schedules: what a person wants said again later."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedule",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("user", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("spec", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("anchor", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("missed", sa.String(), nullable=False),
        sa.Column("to_last", sa.Boolean(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("reply", sa.Text(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("next_due", sa.BigInteger(), nullable=True),
        sa.Column("last_due", sa.BigInteger(), nullable=True),
        sa.Column("last_row", sa.Uuid(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["principal"], ["principal.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("code"),
    )
    active = sa.text("status = 'active'")
    op.create_index("schedule_due", "schedule", ["next_due"], sqlite_where=active, postgresql_where=active)
    op.create_index("schedule_of", "schedule", ["principal"])


def downgrade() -> None:
    op.drop_table("schedule")
