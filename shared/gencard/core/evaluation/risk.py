"""The measures of risk: what a release gives away about the people behind it."""

from gencard.core.evaluation import attacks, clones, disclosure, distances
from gencard.core.evaluation.measure import Group, Measure, Need, Sight

_AGAINST_HOLDOUT = (Need.RECORDS, Need.HOLDOUT)
_NO_PROOF = (
    "DCR is no proof of privacy: records were reconstructed from generators that pass it "
    "(arXiv 2312.05114), and attacks by distance find only part of what leaks (arXiv 2405.10994)."
)
_OTHER_ATTACKS = "Another attack may succeed where this one did not; a risk of 0 is no proof of privacy."

RISK = (
    Measure(
        name="dcr",
        group=Group.RISK,
        title="Distance to the closest record",
        reading=(
            "The lines of rows to train and rows to holdout should lie on each other. Where rows lie "
            "nearer to the records that the release was made from, or more of them are copies, it holds "
            "more of these people than likeness explains."
        ),
        limits=_NO_PROOF,
        needs=_AGAINST_HOLDOUT,
        find=distances.distance_finding,
        kind=distances.DistanceFinding,
        numbers=lambda _attributes, _marginals: distances.NUMBERS,
        sight=Sight.WHOLE,
    ),
    Measure(
        name="clones",
        group=Group.RISK,
        title="Clones",
        reading=(
            "Rows equal to a record. Where attributes are few, nearly every row equals somebody by "
            "likeness alone: what counts is how many more equal records of train than of holdout."
        ),
        limits="A row that differs in one small thing is no clone, and may still give a person away.",
        needs=_AGAINST_HOLDOUT,
        find=clones.clone_finding,
        kind=clones.CloneFinding,
        numbers=lambda _attributes, _marginals: clones.CLONE_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Measure(
        name="nndr",
        group=Group.RISK,
        title="Nearest neighbour distance ratio",
        reading=(
            "Near 0, a row singles one record out; near 1, it lies no nearer to one than to another. "
            "Both lines should lie on each other."
        ),
        limits=_NO_PROOF,
        needs=_AGAINST_HOLDOUT,
        find=clones.ratio_finding,
        kind=clones.RatioFinding,
        numbers=lambda _attributes, _marginals: clones.RATIO_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Measure(
        name="replicated-uniques",
        group=Group.RISK,
        title="Replicated uniques",
        reading=(
            "UiO: records that are unique, UiS: rows that are, UiOiS: unique records that some row "
            "equals, repU: those that are unique in both. An intruder looks for the last."
        ),
        limits=(
            "A unique row may equal a unique record by chance, above all where attributes are few; and "
            "uniqueness by some of the attributes is another question."
        ),
        needs=(Need.RECORDS,),
        find=disclosure.uniques_finding,
        kind=disclosure.UniquesFinding,
        numbers=lambda _attributes, _marginals: disclosure.UNIQUE_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Measure(
        name="disclosure",
        group=Group.RISK,
        title="Disclosure of the target",
        reading=(
            "DiS: people about whom rows with their keys agree on one level of the target; DiSCO: those "
            "of whom it is right. Beside them, in grey, what the records themselves would tell."
        ),
        limits=(
            "It knows these keys and this target alone, and counts what is told, also where anybody "
            "would have guessed it."
        ),
        needs=(Need.RECORDS, Need.KEYS, Need.TARGET),
        find=disclosure.disclosure_finding,
        kind=disclosure.DisclosureFinding,
        numbers=lambda _attributes, _marginals: disclosure.DISCLOSURE_NUMBERS,
        sight=Sight.KEYS,
    ),
    Measure(
        name="singling-out",
        group=Group.RISK,
        title="Attack: singling out",
        reading=(
            "Descriptions that exactly one row meets, tried on the records: how many single one person "
            "out. What the attack gains over control is due to records in train."
        ),
        limits=_OTHER_ATTACKS,
        needs=_AGAINST_HOLDOUT,
        find=attacks.singling_out_finding,
        kind=attacks.AttackFinding,
        numbers=lambda _attributes, _marginals: attacks.NUMBERS,
        sight=Sight.WHOLE,
    ),
    Measure(
        name="linkability",
        group=Group.RISK,
        title="Attack: linkability",
        reading=(
            "Two halves of a record, known to two parties, are linked where the rows nearest to each "
            "have one in common."
        ),
        limits=_OTHER_ATTACKS,
        needs=_AGAINST_HOLDOUT,
        find=attacks.linkability_finding,
        kind=attacks.AttackFinding,
        numbers=lambda _attributes, _marginals: attacks.NUMBERS,
        sight=Sight.WHOLE,
    ),
    Measure(
        name="inference",
        group=Group.RISK,
        title="Attack: inference of the target",
        reading=(
            "The target of somebody, all else known, is guessed from the nearest row. Control shows "
            "what the rows rightly teach of everybody."
        ),
        limits=_OTHER_ATTACKS,
        needs=(*_AGAINST_HOLDOUT, Need.TARGET),
        find=attacks.inference_finding,
        kind=attacks.AttackFinding,
        numbers=lambda _attributes, _marginals: attacks.NUMBERS,
        sight=Sight.WHOLE,
    ),
    Measure(
        name="membership",
        group=Group.RISK,
        title="Attack: membership by distance",
        reading="How often a record that the release was made from is nearer to its rows than another.",
        limits=f"Attacks by distance are weak: 50 % shows nothing. {_OTHER_ATTACKS}",
        needs=_AGAINST_HOLDOUT,
        find=attacks.membership_finding,
        kind=attacks.MembershipFinding,
        numbers=lambda _attributes, _marginals: attacks.AREA_NUMBERS,
        sight=Sight.WHOLE,
    ),
)
"""In the order of a report."""
