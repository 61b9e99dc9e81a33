"""Measure: the door from records to psi."""

from tests.mutation.mutant import mutants_of

MEASURE = "gencard.core.statistics.measure"
DOOR = ("tests/core/test_measure.py",)
LINEAR = ("tests/core/test_linear.py",)
DISCLOSURE = ("tests/core/test_disclosure.py", "-k", "declared_zeros or drawn_by_nobody")
NOISY = ("tests/core/test_noise.py::TestMeasure",)
mutant = mutants_of("measure")

MUTANTS = (
    mutant(
        "noisy statistics are measured exactly where no source of noise is given",
        MEASURE,
        "if not isinstance(privacy, Exact) and noise is None:",
        "if not isinstance(privacy, Exact) and noise is None and weights:",
        DISCLOSURE,
    ),
    mutant(
        "psi of a card of tier private is measured",
        MEASURE,
        "if isinstance(privacy, InsideGenerator):",
        "if isinstance(privacy, InsideGenerator) and noise is None:",
        DOOR,
    ),
    mutant(
        "marginals get no noise where a linear statistic stands beside them",
        MEASURE,
        "if noise is not None and not isinstance(privacy, Exact):",
        "if noise is not None and not isinstance(privacy, Exact) and not linear:",
        LINEAR,
    ),
    mutant(
        "weights of the budget are ignored",
        MEASURE,
        "noisy(exact, privacy, noise, weights, coding)",
        "noisy(exact, privacy, noise)",
        NOISY,
    ),
    mutant(
        "counts that contradict each other are accepted",
        MEASURE,
        "    check_consistent(exact_psi, may_be_empty=may_be_empty)\n",
        "",
        DOOR,
    ),
    mutant(
        "linear statistics are accepted beside a transform of counts",
        MEASURE,
        "if (linear and transform != AS_COUNTED) or (sums and transform.rounding > 1):",
        "if linear and cliques and transform != AS_COUNTED:",
        LINEAR,
    ),
    mutant(
        "declared zeros are held against the counts",
        MEASURE,
        "transformed(exact, transform, zeros)",
        "transformed(exact, transform, ())",
        DISCLOSURE,
    ),
    mutant(
        "psi carries attributes that no statistic names",
        MEASURE,
        "public = domain.covered_by(",
        "public = domain or domain.covered_by(",
        DOOR,
    ),
    mutant(
        "a linear statistic over another domain is measured",
        MEASURE,
        "        statistic.check_belongs(domain)\n",
        "        pass\n",
        LINEAR,
    ),
    mutant(
        "the whole table of each linear statistic is released",
        MEASURE,
        "marginals, rest = exact_psi.measurements[: len(cliques)],",
        "marginals, rest = exact_psi.measurements,",
        LINEAR,
    ),
)
