"""Which runs count in limits.refusals: refused, or waiting, because of the records.

Runs of before count for nothing: the rules that refused them were not kept, so no steward could judge.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("counts", sa.Integer(), nullable=False, server_default="0"))
