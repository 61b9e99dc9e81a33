"""Word to stewards: what was announced, and messages on their way."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "announced",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_told"),
    )
    op.create_table(
        "messages",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("channel", sa.String(20), nullable=False),
        sa.Column("kinds", sa.Text(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due", sa.String(20), nullable=False),
        sa.Column("created", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_messages"),
        sa.UniqueConstraint("name", name="uq_messages_name"),
        sqlite_autoincrement=True,
    )
