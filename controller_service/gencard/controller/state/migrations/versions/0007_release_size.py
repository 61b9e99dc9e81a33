"""The size of a release, so that a quota is one sum and no look at every file.

Releases from before count with 0 bytes; the bound on their number holds for them as before.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("releases", sa.Column("size", sa.BigInteger(), nullable=False, server_default="0"))
