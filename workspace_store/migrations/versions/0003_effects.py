"""The effect ledger, the use of egress budgets, and hosts that people allowed."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "effect",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("sandbox_epoch", sa.BigInteger(), nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("proxy", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("path_digest", sa.String(), nullable=False),
        sa.Column("request_digest", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("outcome", sa.Integer(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("bytes_out", sa.BigInteger(), nullable=False),
        sa.Column("bytes_in", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.Column("told", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    with op.batch_alter_table("effect", schema=None) as batch_op:
        batch_op.create_index("effect_of", ["principal", "number"], unique=False)
        batch_op.create_index("effect_turn", ["turn", "number"], unique=False)
        batch_op.create_index(
            "effect_intended",
            ["proxy"],
            unique=False,
            sqlite_where=sa.text("status = 'intended'"),
            postgresql_where=sa.text("status = 'intended'"),
        )
        batch_op.create_index(
            "effect_untold",
            ["principal"],
            unique=False,
            sqlite_where=sa.text("NOT told"),
            postgresql_where=sa.text("NOT told"),
        )
    op.create_table(
        "egress_usage",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "day"),
    )
    op.create_table(
        "egress_grant",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("allowed", sa.Boolean(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("given_by", sa.Uuid(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("egress_grant", schema=None) as batch_op:
        batch_op.create_index("egress_grant_of", ["principal", "host", "port"], unique=True)


def downgrade() -> None:
    raise NotImplementedError("the ledger is not thrown away; restore a backup instead")
