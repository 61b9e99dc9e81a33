"""Passkeys of stewards, and the links by which they are enrolled."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "passkeys",
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("holder", sa.String(400), nullable=False),
        sa.Column("credential", sa.LargeBinary(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.String(20), nullable=False),
        sa.Column("used", sa.String(20)),
        sa.PrimaryKeyConstraint("key", name="pk_passkeys"),
    )
    op.create_index("ix_passkeys_holder", "passkeys", ["holder"])
    op.create_table(
        "passkey_links",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("holder", sa.String(400), nullable=False),
        sa.Column("ends", sa.String(20), nullable=False),
        sa.Column("used", sa.String(20)),
        sa.PrimaryKeyConstraint("digest", name="pk_passkey_links"),
    )
