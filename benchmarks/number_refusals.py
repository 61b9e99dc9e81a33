"""Plausible runs on a number with a long tail: how many are told, wait for a steward, or are refused.

``python -m benchmarks.number_refusals [--full] [--json FILE]``. The file is that of medical
expenditures, with a schema that was drafted without a hand, and with declared last edges, as which
larger numbers count. Each run is judged by the rules of a drafted policy, as the first one of its
records.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations, product

from benchmarks import bench
from benchmarks.sums import LASTS, Case, Clamped, Records, data_file
from gencard.core.statistics.formula import Analysis

_LABELS = ("sex", "child", "black", "physlim", "idp", "health")
_TWO_LEVELS = _LABELS[:5]
_NUMBERS = ("age", "linc", "educdec", "ndisease")
_WHERE = ("", "sex == 'female'", "health == 'good'")
_QUICK = 5
"""Quickly, one of so many runs is tried."""


def _one_response(response: str) -> Iterator[Case]:
    terms = (*_LABELS, *_NUMBERS)
    for where in _WHERE:
        free = [name for name in terms if name not in where]
        labels = [name for name in free if name in _LABELS]
        yield from (
            Case("medexp", f"{response} ~ {one}", Analysis.MEANS, where) for one in ("1", *labels)
        )
        for one in labels:
            if one in _TWO_LEVELS:
                yield Case("medexp", f"{response} ~ {one}", Analysis.TTEST, where)
            yield Case("medexp", f"{response} ~ {one}", Analysis.ANOVA, where)
        yield from (Case("medexp", f"{response} ~ {one}", Analysis.LINEAR, where) for one in free)
    for one, other in combinations(terms, 2):
        yield Case("medexp", f"{response} ~ {one} + {other}", Analysis.LINEAR)
    for one, other in combinations(_LABELS, 2):
        yield Case("medexp", f"{response} ~ {one} + {other}", Analysis.ANOVA)
    for one, other in product(_LABELS, _NUMBERS):
        yield Case("medexp", f"{response} ~ {one} * {other}", Analysis.LINEAR)
        yield Case("medexp", f"{response} ~ {one} + {other} + age", Analysis.LINEAR)


def _cases() -> Iterator[Case]:
    for response in ("med", "log1p(med)"):
        yield from _one_response(response)
    for where in _WHERE:
        yield from (Case("medexp", f"~ med + {one}", Analysis.CORRELATION, where) for one in _NUMBERS)
        labels = (one for one in _LABELS if one not in where)
        yield from (Case("medexp", f"med ~ {one}", Analysis.QUANTILES, where) for one in ("1", *labels))


def _group(case: Case) -> str:
    """The kind of a run, and what it is of."""
    where = ", of a group" if case.where else ""
    shape = ", with an interaction" if "*" in case.formula else ""
    function = ", of logarithms" if "log1p" in case.formula else ""
    return f"{case.kind}{function}{shape}{where}"


def run(quick: bool) -> bench.Result:
    """Judge every run under each schema."""
    path = data_file("medexp")
    files = {"as drafted": Records(path)} | {
        f"last edge {last:,}": Clamped(path, {"med": last}) for last in LASTS
    }
    cases = list(dict.fromkeys(_cases()))[:: _QUICK if quick else 1]
    ends: dict[str, dict[str, Counter[str]]] = {name: defaultdict(Counter) for name in files}
    rules: dict[str, dict[str, Counter[str]]] = {name: defaultdict(Counter) for name in files}
    for (name, records), case in product(files.items(), cases):
        one = records.run(case)
        end, _, broken = ("not taken" if one is None else one.end()).partition(": ")
        ends[name][_group(case)][end] += 1
        rules[name][_group(case)].update(broken.split(", ") if broken else ())
    rows: list[tuple[bench.Cell, ...]] = [
        (group, schema, own.total(), own["told"], own["waits"], own["refused"] + own["not taken"],
         ", ".join(f"{rule} {number}" for rule, number in rules[schema][group].most_common(3)))
        for group in sorted(ends["as drafted"])
        for schema, own in ((schema, groups[group]) for schema, groups in ends.items())
    ]  # fmt: skip
    rows += [
        ("all", schema, len(cases), *(sum(one[end] for one in groups.values()) for end in _ENDS), "")
        for schema, groups in ends.items()
    ]
    columns = ("runs", "schema", "number", "told", "wait", "refused", "most frequent rules")
    return bench.Result((bench.Table("Runs on expenditures", columns, rows),), ())


_ENDS = ("told", "waits", "refused")


if __name__ == "__main__":
    bench.main("number_refusals", run, usually_quick=True)
