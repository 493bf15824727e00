"""Tasks and commitments; what a folded turn said, for exact look-up; how folding fares."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "task",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("goal", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("check_command", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("claims", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("task_key", "task", ["key"], unique=True)
    op.create_index("task_number", "task", ["principal", "number"], unique=True)
    _partial("task_open", "task", ["principal", "number"], "closed_at IS NULL")
    op.create_table(
        "commitment",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("task", sa.Uuid(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("noticed", sa.Boolean(), nullable=False),
        sa.Column("ending", sa.String(), nullable=True),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("commitment_key", "commitment", ["key"], unique=True)
    op.create_index("commitment_number", "commitment", ["principal", "number"], unique=True)
    _partial("commitment_open", "commitment", ["principal", "number"], "ended_at IS NULL")
    _partial("commitment_task", "commitment", ["task"], "ended_at IS NULL")
    op.create_table(
        "turn_fact",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("lookup", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "seq", "position"),
    )
    op.create_index("turn_fact_lookup", "turn_fact", ["principal", "lookup", "seq"])
    op.create_table(
        "folding",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal"),
    )


def _partial(name: str, table: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=condition, postgresql_where=condition)


def downgrade() -> None:
    raise NotImplementedError("restore a backup instead")
