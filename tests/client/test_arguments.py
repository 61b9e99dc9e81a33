"""Public calls show their real options, and every argument has a check."""

import inspect

import pytest

import gencard.client
from gencard.client import Analyst, Audit, Card, Plan, Release, Steward, all_marginals, mean
from gencard.client.common.arguments import CHECKS, checked
from gencard.client.terms import Measured
from gencard.core import errors

CLASSES = (Analyst, Steward, Card, Plan, Release, Audit, gencard.client.FidelityReport)
RECEIVERS = {"self", "cls"}
PUBLIC = {
    f"{kind.__name__}.{name}": member
    for kind in CLASSES
    for name, member in inspect.getmembers(kind, callable)
    if not name.startswith("_")
} | {
    name: value
    for name in gencard.client.__all__
    if inspect.isfunction(value := getattr(gencard.client, name))
}
UNCHECKED = {"without", "marginal", "clique", "cell", "terms"}
"""Names of lines, and values that we made."""


def parameters(call):
    return {
        name: one for name, one in inspect.signature(call).parameters.items() if name not in RECEIVERS
    }


def test_a_signature_hides_nothing():
    for name, call in PUBLIC.items():
        kinds = {one.kind for one in parameters(call).values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def test_every_argument_has_a_check():
    for name, call in PUBLIC.items():
        own = parameters(call).keys() - UNCHECKED
        assert own <= CHECKS.keys(), name
        assert not own or hasattr(call, "__wrapped__"), name


@pytest.mark.parametrize("call", [Analyst.propose, Analyst.price, Analyst.plan, Card.counter])
def test_help_names_every_option(call):
    shown = inspect.getdoc(call)
    assert Measured.__annotations__.keys() <= parameters(call).keys()
    assert all(f"{name}: " in shown for name in Measured.__annotations__)


def test_the_public_names_are_those_that_completion_shows():
    assert set(gencard.client.__all__) <= set(dir(gencard.client))
    assert "_HOME" not in dir(gencard.client)


@checked()
def release(rows: int, *, seed: int = 0, purpose: str | None = None) -> tuple:
    """A call."""
    return rows, seed, purpose


class TestBinding:
    def test_values_arrive_as_whole_numbers(self):
        import numpy as np

        assert release(np.int64(5), seed=np.uint8(3)) == (5, 3, None)
        assert type(release(np.int64(5))[0]) is int

    def test_none_is_the_default_where_it_is_one_and_refused_elsewhere(self):
        assert release(5, purpose=None)[2] is None
        with pytest.raises(errors.InvalidNumberError, match="not None"):
            release(None)

    def test_an_error_inside_the_call_is_not_taken_for_a_wrong_argument(self):
        @checked()
        def broken(rows: int) -> None:
            raise TypeError("inside")

        with pytest.raises(TypeError, match="inside"):
            broken(5)

    def test_an_argument_never_shows_what_it_holds(self):
        with pytest.raises(errors.InvalidInputError) as refused:
            mean({"Ann": "HIV+"})
        assert "Ann" not in str(refused.value)

    def test_a_long_argument_is_cut(self):
        with pytest.raises(errors.InvalidNumberError) as refused:
            all_marginals("9" * 10_000)
        assert len(str(refused.value)) < 400
