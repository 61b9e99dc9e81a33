"""The risk of psi of cards, for stewards alone."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "risks",
        sa.Column("card", sa.String(400), nullable=False),
        sa.Column("tables", sa.String(64), nullable=False),
        sa.Column("report", sa.LargeBinary(), nullable=False),
        sa.Column("cards", sa.Text(), nullable=False),
        sa.Column("seen", sa.Text(), nullable=False),
        sa.Column("created", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("card", name="pk_risks"),
    )
