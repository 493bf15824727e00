"""The first schema: principals, identities, inbox, journal, checkpoints, outbox, memory."""

import sqlalchemy as sa
from alembic import op

from workspace_store.journal import POSTGRESQL_TRIGGERS, SQLITE_TRIGGERS
from workspace_store.memory import POSTGRESQL_SEARCH, SQLITE_SEARCH

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoint",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("volume_id", sa.String(), nullable=True),
        sa.Column("manifest_digest", sa.String(), nullable=True),
        sa.Column("state_digest", sa.String(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "seq"),
    )
    op.create_table(
        "generation",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("manifest_digest", sa.String(), nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("moving", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "generation"),
    )
    op.create_table(
        "identity_event",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Uuid(), nullable=True),
        sa.Column("user", sa.Uuid(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "journal_event",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("payload_hash", sa.String(), nullable=False),
        sa.Column("prev_hash", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "seq"),
    )
    with op.batch_alter_table("journal_event", schema=None) as batch_op:
        batch_op.create_index("journal_event_turn", ["principal", "turn", "seq"], unique=False)

    op.create_table(
        "journal_payload",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "seq"),
    )
    op.create_table(
        "note",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("superseded_by", sa.Uuid(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("note", schema=None) as batch_op:
        batch_op.create_index("note_key", ["key"], unique=True)
        batch_op.create_index("note_of", ["principal", "at"], unique=False)

    op.create_table(
        "outbox",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("inbox", sa.Uuid(), nullable=True),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=False),
        sa.Column("claimed_by", sa.String(), nullable=True),
        sa.Column("claim_until", sa.BigInteger(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("possibly_repeated", sa.Boolean(), nullable=False),
        sa.Column("queued_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    with op.batch_alter_table("outbox", schema=None) as batch_op:
        batch_op.create_index("outbox_answers", ["inbox", "number"], unique=False)
        batch_op.create_index(
            "outbox_dead",
            ["number"],
            unique=False,
            sqlite_where=sa.text("status = 'dead'"),
            postgresql_where=sa.text("status = 'dead'"),
        )
        batch_op.create_index(
            "outbox_open",
            ["channel", "number"],
            unique=False,
            sqlite_where=sa.text("status IN ('queued', 'sending')"),
            postgresql_where=sa.text("status IN ('queued', 'sending')"),
        )
        batch_op.create_index(
            "outbox_repeated",
            ["number"],
            unique=False,
            sqlite_where=sa.text("possibly_repeated"),
            postgresql_where=sa.text("possibly_repeated"),
        )
        batch_op.create_index(
            "outbox_strand",
            ["channel", "account", "conversation", "number"],
            unique=False,
            sqlite_where=sa.text("status IN ('queued', 'sending')"),
            postgresql_where=sa.text("status IN ('queued', 'sending')"),
        )

    op.create_table(
        "principal",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("inbox_seq", sa.BigInteger(), nullable=False),
        sa.Column("drained_seq", sa.BigInteger(), nullable=False),
        sa.Column("stop_seq", sa.BigInteger(), nullable=False),
        sa.Column("rung_at", sa.BigInteger(), nullable=False),
        sa.Column("head_seq", sa.BigInteger(), nullable=False),
        sa.Column("head_hash", sa.String(), nullable=False),
        sa.Column("sandbox_host", sa.String(), nullable=True),
        sa.Column("sandbox_epoch", sa.BigInteger(), nullable=False),
        sa.Column("sandbox_until", sa.BigInteger(), nullable=False),
        sa.Column("volume_id", sa.String(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("host_uid", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("host_uid"),
    )
    with op.batch_alter_table("principal", schema=None) as batch_op:
        batch_op.create_index(
            "principal_awake",
            ["sandbox_host"],
            unique=False,
            sqlite_where=sa.text("sandbox_host IS NOT NULL"),
            postgresql_where=sa.text("sandbox_host IS NOT NULL"),
        )
        batch_op.create_index(
            "principal_owned",
            ["owner"],
            unique=False,
            sqlite_where=sa.text("owner IS NOT NULL"),
            postgresql_where=sa.text("owner IS NOT NULL"),
        )
        batch_op.create_index(
            "principal_with_mail",
            ["rung_at"],
            unique=False,
            sqlite_where=sa.text("drained_seq < inbox_seq"),
            postgresql_where=sa.text("drained_seq < inbox_seq"),
        )

    op.create_table(
        "turn_record",
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=False),
        sa.Column("messages", sa.Text(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("folded", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "seq"),
    )
    with op.batch_alter_table("turn_record", schema=None) as batch_op:
        batch_op.create_index("turn_record_turn", ["turn"], unique=True)
        batch_op.create_index(
            "turn_record_unfolded",
            ["principal", "seq"],
            unique=False,
            sqlite_where=sa.text("folded IS NULL"),
            postgresql_where=sa.text("folded IS NULL"),
        )

    op.create_table(
        "user_account",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("display_name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("blocked", sa.Boolean(), nullable=False),
        sa.Column("merged_into", sa.Uuid(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "identity",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=False),
        sa.Column("user", sa.Uuid(), nullable=False),
        sa.Column("display", sa.String(), nullable=False),
        sa.Column("proof", sa.String(), nullable=False),
        sa.Column("proven_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user"],
            ["user_account.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("identity", schema=None) as batch_op:
        batch_op.create_index("identity_key", ["channel", "account", "external_id"], unique=True)
        batch_op.create_index("identity_of", ["user"], unique=False)

    op.create_table(
        "inbox",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("dedupe_key", sa.String(), nullable=False),
        sa.Column("principal", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("actor", sa.Uuid(), nullable=True),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("conversation", sa.String(), nullable=False),
        sa.Column("thread", sa.String(), nullable=False),
        sa.Column("envelope", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("turn", sa.Uuid(), nullable=True),
        sa.Column("received_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("crashes", sa.Integer(), nullable=False),
        sa.Column("crashes_alone", sa.Integer(), nullable=False),
        sa.Column("alone", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["principal"],
            ["principal.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("dedupe_key"),
    )
    with op.batch_alter_table("inbox", schema=None) as batch_op:
        batch_op.create_index("inbox_open", ["principal", "status", "seq"], unique=False)
        batch_op.create_index("inbox_order", ["principal", "seq"], unique=True)
        batch_op.create_index("inbox_turn", ["turn"], unique=False)
    sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in (SQLITE_TRIGGERS + SQLITE_SEARCH) if sqlite else (POSTGRESQL_TRIGGERS + POSTGRESQL_SEARCH):
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("there is nothing before the first schema; restore a backup instead")
