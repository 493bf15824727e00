"""Mailboxes that are fetched from, and finding a mail that was sent by its Message-ID."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mailbox",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("uid_validity", sa.BigInteger(), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    mail = sa.text("channel = 'email' AND external_id IS NOT NULL")
    op.create_index("outbox_mail", "outbox", ["external_id"], sqlite_where=mail, postgresql_where=mail)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
