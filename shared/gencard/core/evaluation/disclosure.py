"""Uniques and what the release tells of a target; see ``privacy.disclosure_risk``."""

from dataclasses import dataclass

from gencard.core.domain import Clique
from gencard.core.evaluation.axes import ALARM, BESIDE, RELEASE, Axes
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.evaluation.words import percent
from gencard.core.privacy.disclosure import disclosure_risk
from gencard.core.privacy.uniques import replicated_uniques

UNIQUE_NUMBERS, DISCLOSURE_NUMBERS = 4, 16
_OF_THE_ORIGINAL = frozenset({"UiO", "Dorig", "CAPd", "baseCAPd"})
_WORST = frozenset({"repU", "DiSCO", "DiSDiO"})


@dataclass(frozen=True, slots=True)
class UniquesFinding(Shown):
    """Combinations of all attributes that exactly one record or row has.

    Args:
        shares: UiO, UiS, UiOiS, repU; of the records, UiS of the rows.
    """

    shares: tuple[tuple[str, float], ...]

    @property
    def sentence(self) -> str:
        shares = dict(self.shares)
        return (
            f"{percent(shares['repU'])} of the records are unique, and stand in the release as unique "
            f"rows: replicated uniques. {percent(shares['UiO'])} of the records are unique at all."
        )

    @property
    def stands_out(self) -> bool:
        return False

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.shares

    @property
    def drawn_lines(self) -> int:
        return len(self.shares)

    def plot(self, axes: Axes) -> None:
        """One bar each."""
        _bars(axes, self.lines)


def uniques_finding(material: Material) -> UniquesFinding:
    found = replicated_uniques(material.records, material.synthetic)
    return UniquesFinding(tuple(found.named.items()))


@dataclass(frozen=True, slots=True)
class DisclosureFinding(Shown):
    """What the release tells of the target of somebody whose keys are known.

    Args:
        keys: The declared keys that the release has.
        shares: The measures under their names in the literature.
    """

    keys: Clique
    target: str
    shares: tuple[tuple[str, float], ...]

    @property
    def sentence(self) -> str:
        shares = dict(self.shares)
        return (
            f"Whoever knows {', '.join(self.keys)} of all people is told {self.target} of "
            f"{percent(shares['DiS'])} of them, and correctly of {percent(shares['DiSCO'])}. The "
            f"records themselves would tell it of {percent(shares['Dorig'])}."
        )

    @property
    def stands_out(self) -> bool:
        return False

    @property
    def lines(self) -> tuple[Line, ...]:
        return self.shares

    @property
    def drawn_lines(self) -> int:
        return len(self.shares)

    def plot(self, axes: Axes) -> None:
        """One bar each."""
        _bars(axes, self.lines)


def disclosure_finding(material: Material) -> DisclosureFinding:
    """By the declared keys, those of them that the release has."""
    domain, declared = material.synthetic.domain, material.declared
    keys = domain.canonical(tuple(name for name in declared.keys if name in domain.attributes))
    found = disclosure_risk(material.records, material.synthetic, keys, declared.target)
    shares = found.uniques.named | found.attribute.named | found.attribution.named
    return DisclosureFinding(keys, found.target, tuple(shares.items()))


def _bars(axes: Axes, lines: tuple[Line, ...]) -> None:
    names = [name for name, _ in lines]
    colours = [
        BESIDE if name in _OF_THE_ORIGINAL else ALARM if name in _WORST else RELEASE for name in names
    ]
    axes.barh(
        range(len(names)), [100 * (value or 0.0) for _, value in lines], color=colours, height=0.62
    )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("%")
