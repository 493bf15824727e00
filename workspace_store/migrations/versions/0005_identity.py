"""Merging, linking, pairing: who is whose, by which code, since when."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("principal", sa.Column("merged_into", sa.Uuid(), nullable=True))
    op.add_column("principal", sa.Column("closed", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute("ALTER TABLE user_account DROP COLUMN merged_into")
    op.add_column("identity", sa.Column("vouched_mail", sa.String(), nullable=True))
    for name, table, columns, where in (
        ("principal_absorbed", "principal", ["merged_into"], "merged_into IS NOT NULL"),
        ("principal_closed", "principal", ["sandbox_host"], "closed"),
        ("identity_vouched", "identity", ["vouched_mail"], "vouched_mail IS NOT NULL"),
        ("identity_event_of", "identity_event", ["user", "number"], None),
        ("user_admins", "user_account", ["id"], "role = 'admin'"),
        ("user_in_order", "user_account", ["created_at", "id"], None),
        ("outbox_in_thread", "outbox", ["channel", "account", "conversation", "thread"], "channel = 'slack'"),
    ):
        condition = sa.text(where) if where else None
        op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)
    op.create_table(
        "pairing",
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=False),
        sa.Column("display", sa.String(), nullable=False),
        sa.Column("proof", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("reply", sa.Text(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("code"),
    )
    op.create_index("pairing_of", "pairing", ["channel", "account", "external_id"], unique=True)
    op.create_index("pairing_ends", "pairing", ["expires_at"])
    op.create_table(
        "link_code",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("maker", sa.Uuid(), nullable=False),
        sa.Column("maker_identity", sa.Uuid(), nullable=False),
        sa.Column("maker_place", sa.Text(), nullable=False),
        sa.Column("maker_confirmed", sa.Boolean(), nullable=False),
        sa.Column("other", sa.Text(), nullable=True),
        sa.Column("other_place", sa.Text(), nullable=True),
        sa.Column("other_confirmed", sa.Boolean(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("merge", sa.Uuid(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
    )
    op.create_index("link_code_of", "link_code", ["maker"])
    op.create_index("link_code_ends", "link_code", ["expires_at"])
    op.create_table(
        "code_guess",
        sa.Column("sender", sa.String(), nullable=False),
        sa.Column("wrong", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("locked_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sender"),
    )
    op.create_table(
        "merge",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kept", sa.Uuid(), nullable=False),
        sa.Column("absorbed", sa.Uuid(), nullable=False),
        sa.Column("folder", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("asked_by", sa.Uuid(), nullable=True),
        sa.Column("by_link", sa.Boolean(), nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("done_at", sa.BigInteger(), nullable=True),
        sa.Column("undone_at", sa.BigInteger(), nullable=True),
        sa.Column("moved", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    waiting = sa.text("state = 'waiting'")
    op.create_index("merge_due", "merge", ["due_at"], sqlite_where=waiting, postgresql_where=waiting)
    op.create_index("merge_kept", "merge", ["kept"])
    op.create_index("merge_absorbed", "merge", ["absorbed"])


def downgrade() -> None:
    raise NotImplementedError("merges cannot be forgotten; restore a backup instead")
