"""An agent that moves to another installation: grants made here, and departures from here."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("principal", sa.Column("away", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    op.add_column("principal", sa.Column("rest_until", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("user_account", sa.Column("moved_to", sa.Text(), nullable=True))
    # A fork in the same database has the turns of whoever it was made of.
    op.drop_index("turn_record_turn", "turn_record")
    op.create_index("turn_record_turn", "turn_record", ["turn", "principal"], unique=True)
    op.create_table(
        "move_grant",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user", sa.Uuid(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("bundle", sa.Uuid(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "departure",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user", sa.Uuid(), nullable=False),
        sa.Column("grant", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("returned_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("departure_of", "departure", ["user", "at"])


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
