"""The words of a verdict."""

from enum import StrEnum


class Verdict(StrEnum):
    """What an audit says. There is no third word: an audit never says "safe"."""

    NO_EVIDENCE = "no-evidence"
    LEAKAGE = "leakage"
