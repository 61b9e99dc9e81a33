"""Which controller leads, and the files of the state where controllers share a database."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    leader = op.create_table(
        "leader",
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("place", name="pk_leader"),
    )
    op.bulk_insert(leader, [{"place": 1, "fence": 0, "holder": ""}])
    op.create_table(
        "files",
        sa.Column("name", sa.String(400), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_files"),
    )
    op.create_table(
        "pieces",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "number", name="pk_pieces"),
    )
