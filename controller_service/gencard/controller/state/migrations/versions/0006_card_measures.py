"""Measures of cards, each once, in place of measures of releases.

What was measured of releases is dropped: such numbers told of single records, and are served to nobody
any more. What was paid for them stays in the ledger.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

INSTANT = sa.String(20)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.drop_table("measures")
    op.create_table(
        "measures",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(400), nullable=False),
        sa.Column("card", sa.String(400), nullable=False),
        sa.Column("measure", sa.String(50), nullable=False),
        sa.Column("submitter", sa.String(400), nullable=False),
        sa.Column("statistics", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["card"], ["cards.name"], name=op.f("fk_measures_card")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_measures")),
        sa.UniqueConstraint("name", name=op.f("uq_measures_name")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_measures_card", "measures", ["card"])
