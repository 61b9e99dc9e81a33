"""Runs on the records and their answers.

``outcome`` holds what the records gave before anything is released; ``envelope`` what was signed.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(400), nullable=False),
        sa.Column("card", sa.String(400), nullable=False),
        sa.Column("dataset", sa.String(300), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("submitter", sa.String(400), nullable=False),
        sa.Column("tier", sa.String(20), nullable=False),
        sa.Column("question", sa.String(64), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("line", sa.BigInteger()),
        sa.Column("statistics", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.LargeBinary()),
        sa.Column("envelope", sa.LargeBinary()),
        sa.Column("log_index", sa.BigInteger()),
        sa.Column("created", sa.String(20), nullable=False),
        sa.Column("ended", sa.String(20)),
        sa.ForeignKeyConstraint(["card"], ["cards.name"], name="fk_runs_card"),
        sa.PrimaryKeyConstraint("number", name="pk_runs"),
        sa.UniqueConstraint("name", name="uq_runs_name"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_runs_card", "runs", ["card"])
    op.create_index("ix_runs_dataset", "runs", ["dataset"])
