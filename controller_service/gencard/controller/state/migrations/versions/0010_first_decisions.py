"""First decisions that wait for a second steward, and an index for what waits."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "first_decisions",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(50), nullable=False),
        sa.Column("resource", sa.String(400), nullable=False),
        sa.Column("arguments", sa.LargeBinary(), nullable=False),
        sa.Column("shown", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(200), nullable=False),
        sa.Column("actor", sa.String(400), nullable=False),
        sa.Column("keys", sa.Text(), nullable=False),
        sa.Column("created", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_first_decisions"),
        sa.UniqueConstraint("digest", name="uq_first_decisions_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_first_decisions_resource", "first_decisions", ["resource"])
    op.create_index("ix_cards_state_changed_name", "cards", ["state", "changed", "name"])
