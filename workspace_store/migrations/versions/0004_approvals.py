"""Approvals, and finding a reply by the platform's id of it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "approval",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("token", sa.String(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("asked", sa.Uuid(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("choices", sa.Text(), nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("resumes", sa.Boolean(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("reply", sa.Text(), nullable=False),
        sa.Column("question", sa.Uuid(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("requested_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.Uuid(), nullable=True),
        sa.Column("decided_by_name", sa.String(), nullable=False),
        sa.Column("decided_via", sa.String(), nullable=True),
        sa.Column("choice", sa.String(), nullable=True),
        sa.Column("consumed_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["principal"], ["principal.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("code"),
        sa.UniqueConstraint("key"),
    )
    pending = sa.text("status = 'pending'")
    for name, columns in (("approval_waiting", ["principal", "requested_at"]), ("approval_due", ["expires_at"])):
        op.create_index(name, "approval", columns, sqlite_where=pending, postgresql_where=pending)
    op.create_index("approval_question", "approval", ["question"])
    named = sa.text("external_id IS NOT NULL")
    columns = ["channel", "account", "conversation", "external_id"]
    op.create_index("outbox_sent_as", "outbox", columns, sqlite_where=named, postgresql_where=named)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
