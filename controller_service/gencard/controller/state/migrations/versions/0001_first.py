"""The first tables: ledger, log, answers, operations, cards, psis, releases, audits."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

INSTANT = sa.String(20)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_ledger()
    _create_log()
    _create_requests()
    _create_cards()
    _create_releases()
    _create_audits()


def _create_ledger() -> None:
    op.create_table(
        "balances",
        sa.Column("scope", sa.String(20), nullable=False),
        sa.Column("dataset", sa.String(300), nullable=False),
        sa.Column("holder", sa.String(400), nullable=False),
        sa.Column("statistics", sa.BigInteger(), nullable=False),
        sa.Column("nano_epsilon", sa.BigInteger(), nullable=False),
        sa.Column("nano_rho", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "statistics >= 0 AND nano_epsilon >= 0 AND nano_rho >= 0",
            name=op.f("ck_balances_not_negative"),
        ),
        sa.PrimaryKeyConstraint("scope", "dataset", "holder", name=op.f("pk_balances")),
    )
    op.create_table(
        "lines",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("dataset", sa.String(300), nullable=False),
        sa.Column("project", sa.String(100), nullable=False),
        sa.Column("analyst", sa.String(400), nullable=False),
        sa.Column("resource", sa.String(400), nullable=False),
        sa.Column("kind", sa.String(50), nullable=False),
        sa.Column("statistics", sa.BigInteger(), nullable=False),
        sa.Column("nano_epsilon", sa.BigInteger(), nullable=False),
        sa.Column("nano_rho", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("created", INSTANT, nullable=False),
        sa.Column("ended", INSTANT, nullable=True),
        sa.CheckConstraint(
            "statistics >= 0 AND nano_epsilon >= 0 AND nano_rho >= 0", name=op.f("ck_lines_not_negative")
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_lines")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_lines_analyst", "lines", ["analyst"])
    op.create_index("ix_lines_dataset", "lines", ["dataset"])


def _create_log() -> None:
    op.create_table(
        "events",
        sa.Column("index", SERIAL, autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("leaf", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("index", name=op.f("pk_events")),
    )
    op.create_table(
        "log_nodes",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.PrimaryKeyConstraint("level", "position", name=op.f("pk_log_nodes")),
    )
    op.create_table(
        "checkpoints",
        sa.Column("size", SERIAL, autoincrement=False, nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("size", name=op.f("pk_checkpoints")),
    )


def _create_requests() -> None:
    op.create_table(
        "answers",
        sa.Column("actor", sa.String(400), nullable=False),
        sa.Column("request_id", sa.String(36), nullable=False),
        sa.Column("method", sa.String(200), nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=False),
        sa.Column("created", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("actor", "request_id", name=op.f("pk_answers")),
    )
    op.create_table(
        "operations",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(400), nullable=False),
        sa.Column("owner", sa.String(400), nullable=False),
        sa.Column("kind", sa.String(50), nullable=False),
        sa.Column("resource", sa.String(400), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("stage", sa.String(50), nullable=False),
        sa.Column("permille", sa.Integer(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.LargeBinary(), nullable=True),
        sa.Column("created", INSTANT, nullable=False),
        sa.Column("changed", INSTANT, nullable=False),
        sa.CheckConstraint("permille BETWEEN 0 AND 1000", name=op.f("ck_operations_permille")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_operations")),
        sa.UniqueConstraint("name", name=op.f("uq_operations_name")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_operations_owner", "operations", ["owner"])


def _create_cards() -> None:
    op.create_table(
        "cards",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(400), nullable=False),
        sa.Column("dataset", sa.String(300), nullable=False),
        sa.Column("analyst", sa.String(400), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("etag", sa.String(100), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created", INSTANT, nullable=False),
        sa.Column("changed", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_cards")),
        sa.UniqueConstraint("name", name=op.f("uq_cards_name")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_cards_analyst", "cards", ["analyst"])
    op.create_index("ix_cards_dataset", "cards", ["dataset"])
    op.create_table(
        "psis",
        sa.Column("card", sa.String(400), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["card"], ["cards.name"], name=op.f("fk_psis_card")),
        sa.PrimaryKeyConstraint("card", name=op.f("pk_psis")),
    )


def _create_releases() -> None:
    op.create_table(
        "releases",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(400), nullable=False),
        sa.Column("card", sa.String(400), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.String(20), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("psi_digest", sa.String(64), nullable=False),
        sa.Column("receipt", sa.LargeBinary(), nullable=False),
        sa.Column("file_name", sa.String(300), nullable=False),
        sa.Column("created", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(["card"], ["cards.name"], name=op.f("fk_releases_card")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_releases")),
        sa.UniqueConstraint("name", name=op.f("uq_releases_name")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_releases_card", "releases", ["card"])


def _create_audits() -> None:
    op.create_table(
        "audits",
        sa.Column("number", SERIAL, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(400), nullable=False),
        sa.Column("card", sa.String(400), nullable=False),
        sa.Column("dataset", sa.String(300), nullable=False),
        sa.Column("submitter", sa.String(400), nullable=False),
        sa.Column("black_box", sa.String(100), nullable=False),
        sa.Column("box_digest", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("level", sa.String(40), nullable=True),
        sa.Column("verdict", sa.String(20), nullable=True),
        sa.Column("wording", sa.Text(), nullable=True),
        sa.Column("attestation", sa.LargeBinary(), nullable=True),
        sa.Column("report", sa.LargeBinary(), nullable=True),
        sa.Column("created", INSTANT, nullable=False),
        sa.Column("ended", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(["card"], ["cards.name"], name=op.f("fk_audits_card")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audits")),
        sa.UniqueConstraint(
            "dataset", "submitter", "attempt", name=op.f("uq_audits_dataset_submitter_attempt")
        ),
        sa.UniqueConstraint("name", name=op.f("uq_audits_name")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audits_card", "audits", ["card"])
