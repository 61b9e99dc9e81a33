"""Programs of analysts in the sandbox: twelve that a statistician would write, and hostile ones."""

from importlib.util import find_spec

import pytest

from gencard.analysis.output_checks.rule_checks import judged_outputs as judged
from gencard.controller.sandbox.analyses import check_libraries
from gencard.core.errors import BlackBoxError, InvalidInputError
from gencard.core.policy import Rule
from gencard.core.program_outputs import FIT, Output, OutputKind, difference_in_shape
from tests.system.programs import (
    EXAMPLES,
    HOSTILE,
    HOSTILE_R,
    IN_R,
    INTO_DIGITS,
    START_R,
    has_r,
    libraries_of,
    missing_r_packages,
    rows,
    sandboxed,
    schema,
)
from tests.system.sandboxes import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.timeout(300)]
needs_r = pytest.mark.skipif(not has_r(), reason="R is not installed")


def test_there_are_twelve_examples():
    assert len(EXAMPLES) == 12


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_on_rows_and_on_records(path):
    text = path.read_text(encoding="utf-8")
    skip_without_modules(text)
    program = sandboxed(text)
    dry = program.outputs(rows(seed=1), schema(), seed=5)
    outputs = program.agreed_outputs(rows(seed=2), schema(), dry, seed=5)
    assert difference_in_shape(dry, outputs) is None
    assert outputs != dry
    assert all(any(value is not None for value in output.values[0]) for output in outputs)
    assert sum(len(row) for marks in judged(outputs) for row in marks) <= 500


ONE_NUMBER = (Output(OutputKind.SCALAR, "x", ("value",), ("value",), ((1.0,),)),)


@pytest.mark.parametrize("name", HOSTILE)
def test_s30_what_a_hostile_program_carries_stays(name):
    """One error for all, without a word of the program's."""
    limits = {"cpu_seconds": 3} if name == "never ends" else {}
    with pytest.raises(BlackBoxError) as caught:
        sandboxed(HOSTILE[name], **limits).agreed_outputs(rows(), schema(), ONE_NUMBER, seed=0)
    assert caught.value.fields == {"problem": "its run on the records did not finish correctly"}


def test_s30_numbers_have_few_digits():
    """Five digits and twelve powers of ten either way: at most 23 bits a number, which documents say."""
    small, large = sandboxed(INTO_DIGITS).outputs(rows(), schema(), seed=0)
    assert (small.values, large.values) == (((0.12346,),), ((None,),))


def test_randomness_is_that_of_the_seed():
    text = "from gencard.run import output, rng\noutput.scalar('x', rng().random())"
    first, again, other = (sandboxed(text).outputs(rows(), schema(), seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_a_level_without_records_keeps_its_place():
    """A table of categoricals has all declared levels, so that a rare one does not fail the run."""
    text = "from gencard.run import output, records\n" + (
        "output.table('sizes', records().groupby(['children', 'age'], observed=True).size())"
    )
    whole, few = rows(), rows(3)
    dry = sandboxed(text).outputs(whole, schema(), seed=0)
    outputs = sandboxed(text).agreed_outputs(few, schema(), dry, seed=0)
    assert sum(value for row in outputs[0].values for value in row) == 3
    broken = {verdict.broken for row in judged(outputs)[0] for verdict in row}
    assert broken == {(Rule.THRESHOLD,), (Rule.ZERO,)}


def test_an_undeclared_library_is_not_there():
    module = "sklearn" if find_spec("sklearn") else "duckdb"
    text = f"import {module}\nfrom gencard.run import output\noutput.scalar('x', 1.0)"
    with pytest.raises(BlackBoxError):
        sandboxed(text, declared=()).outputs(rows(), schema(), seed=0)


def skip_without_modules(text):
    """Skip a test of a program whose libraries are not all installed here."""
    for module in ("statsmodels", "sklearn", "lifelines"):
        if f"import {module}" in text or f"from {module}" in text:
            pytest.importorskip(module)


def in_r(text, *declared, **limits):
    """A program in R; skips the test if a package of R that it declares is not installed here."""
    names = declared or libraries_of(text)
    if missing := missing_r_packages(*names):
        pytest.skip(f"R is installed without its package {', '.join(missing)}")
    return sandboxed(text, names, **limits)


@needs_r
@pytest.mark.parametrize("path", IN_R, ids=lambda path: path.stem)
def test_the_same_program_in_r_gives_the_same_numbers(path):
    text, twin = path.read_text(encoding="utf-8"), path.with_suffix(".py").read_text(encoding="utf-8")
    skip_without_modules(twin)
    dry = in_r(text).outputs(rows(seed=1), schema(), seed=5)
    outputs = in_r(text).agreed_outputs(rows(seed=2), schema(), dry, seed=5)
    expected = sandboxed(twin).outputs(rows(seed=2), schema(), seed=5)
    assert _numbers(outputs) == _numbers(expected)


def _numbers(outputs):
    """Return the numbers that both languages define alike; other numbers of a fit differ."""
    main = [one for one in outputs if not one.name.endswith(FIT)]
    return [(one.name, one.column_names, one.counts, one.values) for one in main]


@needs_r
@pytest.mark.parametrize("name", HOSTILE_R)
def test_s34_a_hostile_program_in_r_ends_as_one_in_python(name):
    """The one error, without a word of the program's."""
    limits = {"cpu_seconds": 3} if name == "never ends" else {}
    with pytest.raises(BlackBoxError) as caught:
        in_r(HOSTILE_R[name], **limits).agreed_outputs(rows(), schema(), ONE_NUMBER, seed=0)
    assert caught.value.fields == {"problem": "its run on the records did not finish correctly"}


@needs_r
def test_s30_numbers_from_r_have_few_digits():
    text = START_R + "output$scalar('x', 0.123456789012345)\noutput$scalar('y', Inf)\n"
    small, large = in_r(text).outputs(rows(), schema(), seed=0)
    assert (small.values, large.values) == (((0.12346,),), ((None,),))


@needs_r
def test_s35_r_finds_declared_packages_alone():
    text = START_R + "output$scalar('x', nrow(survival::lung))"
    assert in_r(text, "R", "R-survival").outputs(rows(), schema(), seed=0)[0].values == ((228.0,),)
    with pytest.raises(BlackBoxError):
        in_r(text, "R").outputs(rows(), schema(), seed=0)


@needs_r
def test_randomness_in_r_is_that_of_the_seed():
    text = START_R + "output$scalar('x', runif(1))"
    first, again, other = (in_r(text).outputs(rows(), schema(), seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@needs_r
def test_what_the_card_does_not_declare_is_no_library():
    for declared in ((), ("R", "R-nothing"), ("R", "perl")):
        with pytest.raises(InvalidInputError, match="libraries"):
            sandboxed(START_R, declared)


@needs_r
def test_a_package_that_is_not_installed_is_refused_where_it_is_named():
    with pytest.raises(InvalidInputError, match="not installed"):
        check_libraries(("R", "R-nothing"))
