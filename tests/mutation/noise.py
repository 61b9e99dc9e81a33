"""Noise: sensitivity, scale, rounding and accounting."""

from tests.mutation.mutant import mutants_of

MECHANISMS = "gencard.core.statistics.noise"
NOISE = "gencard.core.card.privacy"
DECIMALS = "gencard.core.card.budget"

SCALES = ("tests/core/test_noise.py",)
LINEAR = ("tests/core/test_linear.py::TestNoise",)
ACCOUNTING = (
    "tests/core/test_accounting.py::TestConversion",
    "tests/core/test_accounting.py::TestTogether",
)
LAWS = ("tests/system/test_s27_noise.py", "-k", "position_by_position")
mutant = mutants_of("noise")

MUTANTS = (
    mutant(
        "replacing a record counts as moving one cell",
        NOISE,
        "pair = 2 if self.neighbouring is Neighbouring.REPLACE_ONE else 1",
        "pair = 1",
        SCALES,
    ),
    mutant(
        "a scale is rounded to the nearest float, not up",
        DECIMALS,
        "return nearest if Fraction(nearest) >= number else nextafter(nearest, inf)",
        "return nearest",
        SCALES,
    ),
    mutant(
        "the root of a variance is rounded down",
        DECIMALS,
        "fine // number.denominator) + 1",
        "fine // number.denominator)",
        SCALES,
    ),
    mutant(
        "a choice spends twice its epsilon",
        NOISE,
        "above(2 * sensitivity / budget)",
        "above(sensitivity / budget)",
        SCALES,
    ),
    mutant(
        "noisy counts below zero are cut off",
        MECHANISMS,
        "np.clip(counts, -_LARGEST, _LARGEST)",
        "np.clip(counts, 0, _LARGEST)",
        SCALES,
    ),
    mutant(
        "each marginal gets its weight's share of the heaviest, not of the sum",
        NOISE,
        "Fraction(weight, sum(weights))",
        "Fraction(weight, max(weights))",
        SCALES,
    ),
    mutant(
        "a sum's scale forgets to square the largest value for Gaussian noise",
        MECHANISMS,
        "function.largest**privacy.norm",
        "function.largest",
        LINEAR,
    ),
    mutant(
        "the sensitivity of a sum ignores all records but those of its largest value",
        MECHANISMS,
        "np.abs(varying - cell[:, None])",
        "np.abs(varying)",
        LINEAR,
    ),
    mutant(
        "pure releases are left out of what is spent as zCDP",
        MECHANISMS,
        "sum(map(rho_of_pure, epsilons), rho)",
        "rho",
        ACCOUNTING,
    ),
    mutant(
        "private choices are drawn at twice the scale",
        "gencard.controller.noise",
        "zero_concentrated_divergence(), scale)",
        "zero_concentrated_divergence(), 2 * scale)",
        LAWS,
    ),
)
