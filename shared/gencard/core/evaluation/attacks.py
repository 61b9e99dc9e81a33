"""Attacks by the release, each beside control and luck; see ``privacy.attack`` and ``membership``."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from gencard.core.evaluation.axes import ALARM, BESIDE, RELEASE, Axes
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.evaluation.words import interval, percent
from gencard.core.privacy.attacks.attack import Attack, Risk
from gencard.core.privacy.attacks.membership import membership
from gencard.core.privacy.attacks.neighbours import inference, linkability
from gencard.core.privacy.attacks.singling_out import singling_out
from gencard.core.privacy.proportion import Proportion
from gencard.core.privacy.records import present

WIDTH, NEIGHBOURS = 3, 10
"""Attributes in a guess that singles out; rows that each side of a link looks at."""

NUMBERS = 6
"""Right guesses of three kinds, and of how many; the risk follows from them."""

AREA_NUMBERS = 3


@dataclass(frozen=True, slots=True)
class AttackFinding(Shown):
    """One attack: right guesses about train, about holdout (control) and by luck (naive)."""

    attack: Proportion
    control: Proportion
    naive: Proportion

    @property
    def whole(self) -> Attack:
        return Attack(self.attack, self.control, self.naive)

    @property
    def risk(self) -> Risk:
        """What was gained of what control left to gain."""
        return self.whole.risk()

    @property
    def sentence(self) -> str:
        risk = self.risk
        found = (
            f"{percent(self.attack.share)} of the guesses about records that the release was made from "
            f"were right, {percent(self.control.share)} about others, {percent(self.naive.share)} by "
            f"luck: a risk of {percent(risk.estimate)} ({interval(risk.low, risk.high)})."
        )
        weak = "The attack does no better than luck, so its risk says nothing."
        return found if self.whole.beats_luck() else f"{found} {weak}"

    @property
    def stands_out(self) -> bool:
        return self.risk.low > 0 and self.whole.beats_luck()

    @property
    def lines(self) -> tuple[Line, ...]:
        return (
            ("Attack", self.attack.share),
            ("Control", self.control.share),
            ("By luck", self.naive.share),
            ("Risk", self.risk.estimate),
        )

    @property
    def drawn_lines(self) -> int:
        return 3

    def plot(self, axes: Axes) -> None:
        """Shares with their Wilson intervals."""
        named = (
            ("attack", self.attack, ALARM),
            ("control", self.control, RELEASE),
            ("by luck", self.naive, BESIDE),
        )
        for place, (_, found, colour) in enumerate(named):
            low, high = found.interval()
            axes.hlines([place], [100 * low], [100 * high], color=colour, linewidth=2.5)
            axes.scatter([100 * found.share], [place], color=colour, s=45, zorder=3)
        axes.set_yticks(range(3), [name for name, *_ in named])
        axes.set_ylim(2.6, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(left=0)
        axes.set_xlabel("% of the guesses that were right, with 95 % intervals")


def singling_out_finding(material: Material) -> AttackFinding:
    width = min(WIDTH, len(material.synthetic.domain))
    found = singling_out(
        material.tables,
        width=width,
        attacks=material.declared.attacks,
        rng=material.rng("singling-out"),
    )
    return _finding(found)


def linkability_finding(material: Material) -> AttackFinding:
    """The sides know every other attribute each, in the schema's order."""
    attributes = material.synthetic.domain.attributes
    found = linkability(
        material.tables,
        material.gower,
        (attributes[::2], attributes[1::2]),
        attacks=material.attacks,
        count=min(NEIGHBOURS, len(material.synthetic)),
        rng=material.rng("linkability"),
    )
    return _finding(found)


def inference_finding(material: Material) -> AttackFinding:
    """All attributes but the declared target are known."""
    tables, target = material.tables, material.declared.target
    known = [
        int(np.sum(present(table.columns[table.attributes.index(target)])))
        for table in (tables.train, tables.holdout)
    ]
    attacks = min(material.attacks, *known)
    ask = partial(inference, tables, material.gower, target, rng=material.rng("inference"))
    return _finding(ask(attacks=attacks))


def _finding(found: Attack) -> AttackFinding:
    return AttackFinding(found.attack, found.control, found.naive)


@dataclass(frozen=True, slots=True)
class MembershipFinding(Shown):
    """Membership inference by distance.

    Args:
        area: Chance, 0 to 1, that a random record of train is nearer to the rows than one of holdout.
        low, high: Its 95 % interval.
    """

    area: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        return (
            f"A record that the release was made from is nearer to its rows than another with a "
            f"probability of {percent(self.area)} ({interval(self.low, self.high)}); luck gives 50 %."
        )

    @property
    def stands_out(self) -> bool:
        return self.low > 0.5

    @property
    def lines(self) -> tuple[Line, ...]:
        return (("Area under the curve", self.area), ("Lowest", self.low), ("Highest", self.high))

    @property
    def drawn_lines(self) -> int:
        return 1

    def plot(self, axes: Axes) -> None:
        """The area and its interval, beside luck."""
        axes.axvline(50, color=BESIDE, linestyle=":")
        axes.hlines([0], [100 * self.low], [100 * self.high], color=ALARM, linewidth=2.5)
        axes.scatter([100 * self.area], [0], color=ALARM, s=45, zorder=3)
        axes.set_yticks([0], ["members nearer"])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of the pairs; dotted: luck")


def membership_finding(material: Material) -> MembershipFinding:
    found = membership(material.tables, material.gower)
    return MembershipFinding(found.area, *found.interval())
