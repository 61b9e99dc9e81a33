"""Author and try of each audit's family, and when a steward cleared it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audits", sa.Column("author", sa.String(200), nullable=True))
    op.add_column("audits", sa.Column("family_try", sa.Integer(), nullable=True))
    op.add_column("audits", sa.Column("cleared", sa.String(20), nullable=True))
    op.create_index("ix_audits_dataset", "audits", ["dataset"])
