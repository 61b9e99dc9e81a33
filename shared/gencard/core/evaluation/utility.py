"""The measures of fidelity and utility: what a release keeps."""

from gencard.core.evaluation import fidelity, gaps, predictions, propensity, tables
from gencard.core.evaluation.measure import Group, Measure, Need, Sight

FIDELITY = (
    Measure(
        name="fidelity",
        group=Group.FIDELITY,
        title="Fidelity to psi",
        reading=(
            "Dot: the rows, a diamond where they are beyond the bound. Ring: expected by chance. Tick: "
            "a bound that chance exceeds in about one release of a hundred."
        ),
        limits="It compares the rows with psi, not with the records, and reads none of them.",
        needs=(Need.PSI,),
        find=fidelity.fidelity_finding,
        kind=fidelity.FidelityFinding,
        numbers=lambda _attributes, _marginals: 0,
        sight=Sight.NOTHING,
    ),
)
"""By psi alone: reads no record."""

UTILITY = (
    Measure(
        name="marginals",
        group=Group.UTILITY,
        title="Marginals of Phi",
        reading=(
            "How far the marginals that the card asked for lie from those of the records: what noise, "
            "fitting and sampling together cost."
        ),
        limits="It says nothing about interactions that Phi does not hold.",
        needs=(Need.RECORDS,),
        find=tables.marginals_finding,
        kind=tables.MarginalsFinding,
        numbers=lambda attributes, marginals: 2 * (marginals or attributes),
        sight=Sight.PHI,
    ),
    Measure(
        name="gap",
        group=Group.UTILITY,
        title="The declared gap",
        reading=(
            "Bar: the difference between the two groups in the release, level by level, those furthest "
            "off first; mark: among the records."
        ),
        limits="Levels with few people vary by chance; their gap counts as much as that of large ones.",
        needs=(Need.RECORDS, Need.GAP),
        find=gaps.gap_finding,
        kind=gaps.GapFinding,
        numbers=lambda _attributes, _marginals: gaps.GAP_NUMBERS,
        sight=Sight.GAP,
    ),
    Measure(
        name="tables",
        group=Group.UTILITY,
        title="All tables of one, two and three attributes",
        reading=(
            "Heat map of the pairs: the deeper the colour, the larger S_pMSE. At 1 a table is as good "
            "as resampling the records; pairs that Phi does not hold are as a rule the deepest."
        ),
        limits="A table of four attributes may be wrong where all smaller ones are right.",
        needs=(Need.RECORDS,),
        find=tables.tables_finding,
        kind=tables.TablesFinding,
        numbers=lambda attributes, _marginals: tables.table_numbers(attributes),
        sight=Sight.TABLES,
    ),
    Measure(
        name="propensity",
        group=Group.UTILITY,
        title="Telling rows from records",
        reading=(
            "A regression with interactions and a tree guess which rows are synthetic. At 1 they do no "
            "better than on a resample of the records; the more, the easier it is."
        ),
        limits="A model without an interaction does not see it; it does not say where rows differ.",
        needs=(Need.RECORDS,),
        find=propensity.propensity_finding,
        kind=propensity.PropensityFinding,
        numbers=lambda _attributes, _marginals: propensity.PROPENSITY_NUMBERS,
        sight=Sight.WHOLE,
    ),
    Measure(
        name="predictions",
        group=Group.UTILITY,
        title="Predictions of the target",
        reading=(
            "Accuracy on the holdout, taught by the release and by the records. Bars: what the forest "
            "loses where an attribute is permuted; marks: what it loses among the records."
        ),
        limits="Another target, or another model, may fare differently.",
        needs=(Need.RECORDS, Need.HOLDOUT, Need.TARGET),
        find=predictions.predictions_finding,
        kind=predictions.PredictionsFinding,
        numbers=lambda attributes, _marginals: predictions.prediction_numbers(attributes),
        sight=Sight.WHOLE,
    ),
)
"""In the order of a report."""
