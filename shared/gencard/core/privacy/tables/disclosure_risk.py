"""What synthetic data give away about people whose keys are known: three families of measures at once.

How many can be singled out (``replicated_uniques``), about how many the target is told, and correctly
(``attribute_disclosure``), and how good a guess of it is (``correct_attribution``).
"""

from dataclasses import dataclass

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.privacy.tables.attribute_disclosure import AttributeDisclosure, attribute_disclosure
from gencard.core.privacy.tables.correct_attribution import CorrectAttribution, correct_attribution
from gencard.core.privacy.tables.exclusions import NOTHING, Exclusions
from gencard.core.privacy.tables.key_table import KeyTable, key_table
from gencard.core.privacy.tables.replicated_uniques import ReplicatedUniques, uniques_among


@dataclass(frozen=True, slots=True)
class DisclosureRisk:
    """Of one target from some keys."""

    keys: Clique
    target: str
    uniques: ReplicatedUniques
    attribute: AttributeDisclosure
    attribution: CorrectAttribution


def disclosure_risk(
    original: Dataset, synthetic: Dataset, keys: Clique, target: str, exclusions: Exclusions = NOTHING
) -> DisclosureRisk:
    """Measure it.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidCliqueError: The keys are none, repeat or hold the target, or an exclusion names others.
        InvalidInputError: A dataset holds no record, or an exclusion names a cell outside the domain.
        UnknownAttributeError: An attribute is not in the domain.
    """
    table = key_table(original, synthetic, keys, target, exclusions)
    told = attribute_disclosure(table)
    return DisclosureRisk(
        keys=original.domain.canonical(keys),
        target=target,
        uniques=_uniques(table),
        attribute=told,
        attribution=correct_attribution(table, told),
    )


def _uniques(table: KeyTable) -> ReplicatedUniques:
    """Among the records that are kept; what is found, is found among all synthetic ones."""
    return uniques_among(
        table.by_keys(table.kept(table.original)),
        table.by_keys(table.kept(table.synthetic)),
        table.by_keys(table.synthetic),
        records=int(table.original.sum()),
        synthetic_records=int(table.synthetic.sum()),
    )
