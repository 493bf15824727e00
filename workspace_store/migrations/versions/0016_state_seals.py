"""What tells an authentic process state from one that was changed or put back."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("principal", sa.Column("state_key", sa.String(), nullable=True))
    op.add_column("principal", sa.Column("state_high", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("principal", sa.Column("state_pin", sa.String(), nullable=True))


def downgrade() -> None:
    raise NotImplementedError("states are sealed from here on; restore a backup instead")
