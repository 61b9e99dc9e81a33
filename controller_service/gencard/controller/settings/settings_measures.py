"""The tables of the settings file about measures of cards."""

from typing import Annotated

from pydantic import Field

from gencard.controller.settings.toml_file import Section
from gencard.core.domain import Clique
from gencard.core.evaluation.material import Declared
from gencard.core.privacy.distances.gower import Missing
from gencard.core.utility.gap import GapWords


class GapTable(Section):
    """A difference of two groups within levels of an attribute; see ``core.utility.gap.GapWords``."""

    attribute: str
    first: str
    second: str
    within: str
    among: str = ""
    levels: tuple[str, ...] = ()

    def words(self) -> GapWords:
        return GapWords(**dict(self))


class MeasuresTable(Section):
    """Keys, target and options of evaluations; see ``core.measures.material.Declared``."""

    keys: Clique = ()
    target: str = ""
    attacks: Annotated[int, Field(ge=10, le=10_000)] = 500
    missing: Missing = Missing.CATEGORY
    gap: GapTable | None = None

    def declared(self) -> Declared:
        gap = self.gap.words() if self.gap else None
        return Declared(self.keys, self.target, self.attacks, self.missing, gap)
