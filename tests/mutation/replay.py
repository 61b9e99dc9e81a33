"""Replay: what a client compares before it believes a release."""

from tests.mutation.mutant import mutants_of

CORE = "gencard.core.generators.contract"
REBUILT = "gencard.client.checking.checks"
SIGNED = "gencard.client.checking.checks"
KEPT = "gencard.client.checking.bundle"
TERMS = (
    "tests/client/test_verify.py",
    "-k",
    "not parquet and (outside_the_terms or two_receipts or number_of_rows)",
)
CORE_TESTS = ("tests/core/test_replay.py",)
CARD = ("tests/client/test_card.py", "-k", "psi")
VERIFY = ("tests/client/test_verify.py", "-k", "not parquet and (receipt or psi)")
mutant = mutants_of("replay")

MUTANTS = (
    mutant(
        "replayed rows are not compared with the digest",
        CORE,
        "if dataset.digest() != digest:",
        "if not dataset.digest():",
        CORE_TESTS,
    ),
    mutant(
        "a seed of 65 bits is accepted", CORE, "0 <= seed < _SEEDS", "0 <= seed <= _SEEDS", CORE_TESTS
    ),
    mutant(
        "psi is not compared with the receipt",
        REBUILT,
        "if sha256(psi_document(psi)) != receipt.psi_digest:",
        "if not receipt.psi_digest:",
        VERIFY,
    ),
    mutant(
        "rows made again are not compared with the receipt",
        REBUILT,
        "if dataset.digest() != receipt.rows_digest:",
        "if not receipt.rows_digest:",
        VERIFY,
    ),
    mutant(
        "psi of other statistics passes where its domain is the card's",
        REBUILT,
        "same = same and psi.domain ==",
        "same = same or psi.domain ==",
        CARD,
    ),
    mutant(
        "the noise that psi states is not compared with the card",
        REBUILT,
        "rtol=_ROUNDING, atol=0)",
        "rtol=_ROUNDING, atol=1e9)",
        CARD,
    ),
    mutant(
        "a receipt of another card is believed",
        SIGNED,
        "if receipt.card_digest != card_digest:",
        "if not receipt.card_digest:",
        TERMS,
    ),
    mutant(
        "a receipt dated at the end of the card is believed",
        SIGNED,
        "receipt.time >= card.expire_time",
        "receipt.time > card.expire_time",
        TERMS,
    ),
    mutant(
        "a kept psi is believed where any receipt names it",
        KEPT,
        "if any(receipt.psi_digest != digest for",
        "if receipts and all(receipt.psi_digest != digest for",
        TERMS,
    ),
    mutant(
        "the number of rows is not compared with the receipt",
        KEPT,
        "(one.rows_digest, one.rows) == (digest, size)",
        "one.rows_digest == digest",
        TERMS,
    ),
)
