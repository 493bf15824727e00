"""The form of a principal's records, and the oldest release that runs on this schema: for hosts of two releases."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("principal", sa.Column("format", sa.Integer(), nullable=False, server_default="1"))
    op.create_table("schema_floor", sa.Column("oldest", sa.String(), nullable=False))


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
