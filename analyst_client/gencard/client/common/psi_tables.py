"""psi with the schema's names: marginals as data frames."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from gencard.client.common.display import Displayable, Grid, Part, named
from gencard.core.card.sums import Histogram, scale_of
from gencard.core.coding import Coding
from gencard.core.errors import InvalidInputError
from gencard.core.scale import steps_of
from gencard.core.statistics.psi import HistogramMeasurement, Measurement, Psi, SumMeasurement
from gencard.run.levels import is_ordered

if TYPE_CHECKING:
    import pandas as pd

_MOST_MARGINALS = 20
"""Lines that are shown."""

SUMS = "sums"
"""Key of the table of moments."""


class PsiTables(dict[tuple[str, ...] | str, "pd.DataFrame"]):
    """Data frames by marginal; notebooks show all of them."""

    def _repr_html_(self) -> str:
        heads = (key if isinstance(key, str) else named(key) for key in self)
        parts = zip(heads, self.values(), strict=True)
        return "".join(f"<h4>{escape(head)}</h4>{table.to_html()}" for head, table in parts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NamedPsi(Psi, Displayable):
    """psi of a card, with the names of the levels by its schema."""

    coding: Coding = field(kw_only=True)

    def to_frame(self, marginal: str | Sequence[str] | None = None) -> "pd.DataFrame":
        """Counts with the names of their levels, one line for each cell.

        Args:
            marginal: Attributes of one marginal of psi, in any order; default: all marginals, one after
                the other.

        Returns:
            One column for each attribute, then ``count``, in records, and with noise or rounding its
            standard deviation ``stddev``. With all marginals, the column ``marginal`` comes first, and
            attributes outside a marginal are missing.

        Raises:
            InvalidInputError: psi does not hold this marginal.
        """
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        if marginal is not None:
            names = {marginal} if isinstance(marginal, str) else {*marginal}
            chosen = next((one for one in self.measurements if {*one.clique} == names), None)
            if chosen is None:
                known = "; ".join(map(", ".join, self.cliques))
                raise InvalidInputError(field="marginal", problem=f"must be one of psi: {known}")
            return self._frame(chosen)
        head = self._free("marginal")
        frames = [self._frame(one).assign(**{head: named(one.clique)}) for one in self.measurements]
        if not frames:
            return pd.DataFrame({head: [], self._free("count"): []})
        frame = pd.concat(frames, ignore_index=True)
        attributes = self.domain.covered_by(self.cliques).attributes
        # Workaround: pandas.concat drops categories where those of a column differ.
        types = {name: self._type(name) for name in attributes}
        rest = [name for name in frame if name not in (head, *attributes)]
        return frame.astype(types)[[head, *attributes, *rest]]

    def tables(self) -> PsiTables:
        """Each marginal as a table: its last attribute in columns, the others in rows.

        Moments follow under ``SUMS``: the sum, and the mean over the records, of each function. Then
        each histogram and each sum, under its words: units are whole steps from the scale's centre.
        """
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        tables = PsiTables({one.clique: self._table(one) for one in self.measurements})
        if self.linear:
            tables[SUMS] = pd.DataFrame(
                {
                    "attributes": named(one.statistic.clique),
                    "function": function.name,
                    "sum": one.values[place] / function.denominator,
                    "mean": one.means[place],
                }
                for one in self.linear
                for place, function in enumerate(one.statistic.functions)
            )
        for one in self.histograms:
            tables[str(Histogram(one.attribute))] = self._histogram(one)
        for total in self.sums:
            tables[str(total.sum)] = self._total(total)
        return tables

    def _histogram(self, one: HistogramMeasurement) -> "pd.DataFrame":
        """A line for each cell of the scale: first and last number, and count."""
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        scale = scale_of(self.coding, one.attribute)
        firsts = [steps_of(cell, scale.step) for cell in scale.cells]
        lasts = [*(first - 1 for first in firsts[1:-1]), scale.last]
        frame = pd.DataFrame(
            {"first": scale.numbers(np.array(firsts[:-1])), "last": scale.numbers(np.array(lasts))}
        )
        if len(one.counts) > len(frame):
            frame.loc[len(frame)] = np.nan
        return frame.assign(count=one.counts, stddev=one.stddev)

    def _total(self, one: SumMeasurement) -> "pd.DataFrame":
        """A line for each group: the sum of products of units, in which noise falls, and the records."""
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        indices = [pd.Index(self._names(name), name=name) for name in one.sum.by] or [pd.Index(["all"])]
        index = indices[0] if len(indices) == 1 else pd.MultiIndex.from_product(indices)
        frame = pd.DataFrame({"units": pd.Series(one.values, dtype=object).to_numpy()}, index=index)
        frame["stddev"] = one.stddev
        if one.counts:
            frame = frame.assign(count=one.counts, count_stddev=one.counts_stddev)
        return frame

    def _frame(self, one: Measurement) -> "pd.DataFrame":
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        places = np.indices(one.values.shape).reshape(len(one.clique), -1)
        columns: dict[str, Any] = {
            name: pd.Categorical.from_codes(codes, dtype=self._type(name))
            for name, codes in zip(one.clique, places, strict=True)
        }
        columns[self._free("count")] = one.values.ravel()
        if not self.exact:
            columns[self._free("stddev")] = one.stddev
        return pd.DataFrame(columns)

    def _table(self, one: Measurement) -> "pd.DataFrame":
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        *rows, columns = (pd.Index(self._names(name), name=name) for name in one.clique)
        if not rows:
            return pd.DataFrame({"count": one.values}, index=columns)
        index = rows[0] if len(rows) == 1 else pd.MultiIndex.from_product(rows)
        return pd.DataFrame(one.values.reshape(len(index), -1), index=index, columns=columns)

    def _names(self, name: str) -> tuple[str, ...]:
        return self.coding.attribute(name).coding.level_names

    def _type(self, name: str) -> "pd.CategoricalDtype":
        import pandas as pd  # noqa: PLC0415 - only where frames are wanted

        ordered = is_ordered(self.coding.attribute(name))
        return pd.CategoricalDtype(list(self._names(name)), ordered=ordered)

    def _free(self, column: str) -> str:
        while column in self.domain:
            column += "_"
        return column

    def _panel(self) -> tuple[str, Sequence[Part]]:
        sizes = [
            (named(one.clique), f"{one.values.size:,}", f"{one.stddev:.3g}") for one in self.measurements
        ]
        heads = ("Marginal", "Cells", "Standard deviation of a count")
        more = len(sizes) - _MOST_MARGINALS
        lines = sizes if more <= 0 else [*sizes[:_MOST_MARGINALS], (f"and {more:,} more", "", "")]
        sums = [(named(one.statistic.clique), str(one.values.size)) for one in self.linear]
        grids = [Grid(heads, lines)] if lines else []
        cells = [(str(Histogram(one.attribute)), one.counts, one.stddev) for one in self.histograms]
        cells += [(str(one.sum), one.values, one.stddev) for one in self.sums]
        numbers = [(name, f"{len(values):,}", f"{stddev:.3g}") for name, values, stddev in cells]
        grids += [Grid(("Moments of", "Sums"), sums)] if sums else []
        grids += [Grid(("Numbers", "Cells", "Standard deviation"), numbers)] if numbers else []
        return "psi", grids
