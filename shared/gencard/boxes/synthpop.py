"""SynthPop as a black box: its options, its fits and their bytes. It has no privacy guarantee.

A fit samples without the records, but every leaf of its trees holds codes of some of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.entry import BoxEntry, Parameters, numbers_of_codes, whole
from gencard.boxes.synthpop_trees import (
    Conditional,
    Density,
    Growth,
    Tree,
    conditional,
    density_of,
    nominal,
    numeric,
)
from gencard.core.card.budget import Claim
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import BlackBoxError, InvalidDatasetError, InvalidInputError, InvalidNumberError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.model_file import BROKEN, Arrays, archived, unarchived
from gencard.core.types import FloatArray, Progress, ignore_progress

# Options, read from a card's parameters: order, predictors, rules, growth.


FREE = -1
"""In place of a code, where no rule holds."""


@dataclass(frozen=True, slots=True)
class CodeRule:
    """Records that meet every condition have this code.

    Args:
        where: Attributes that come before it, each with the codes of which it must have one.
    """

    attribute: str
    code: int
    where: tuple[tuple[str, tuple[int, ...]], ...]

    def check(self, domain: Domain) -> None:
        """Check that the rule fits this domain.

        Raises:
            InvalidInputError: A code is outside its attribute's size.
            UnknownAttributeError: An attribute is not in the domain.
        """
        for attribute, codes in ((self.attribute, (self.code,)), *self.where):
            if not all(0 <= code < domain.size(attribute) for code in codes):
                raise InvalidInputError(
                    field="rules", problem="a code is outside the domain of its attribute"
                )


def ruled(rules: Sequence[CodeRule], codes: NDArray[Any], domain: Domain) -> NDArray[np.int64]:
    """The code that the first rule which holds gives to each record, else ``FREE``: shape ``(n,)``."""
    fixed = np.full(len(codes), FREE, dtype=np.int64)
    for rule in reversed(rules):
        is_met = np.ones(len(codes), dtype=np.bool_)
        for attribute, allowed in rule.where:
            is_met &= np.isin(codes[:, domain.axis(attribute)], allowed)
        fixed[is_met] = rule.code
    return fixed


DECLARED = "declared"
BY_LEVELS = "by-levels"

DEFAULTS: Parameters = {
    "order": DECLARED,
    "predictors": "{}",
    "minimum_leaf": "5",
    "complexity": "1e-8",
    "pruning": "none",
    "smoothing": "none",
    "rules": "[]",
}

_CHOICES = {"pruning": ("none", "misclassification"), "smoothing": ("none", "density")}

_LARGEST_LEAF = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """Options for growing and using the trees.

    Args:
        order: In which attributes are drawn: ``DECLARED``, ``BY_LEVELS`` (fewest first), or all names.
        predictors: For some attributes, those that theirs are predicted from; else all before them.
        minimum_leaf: Fewest records in a leaf; a node with fewer than three times as many is a leaf.
        complexity: Least gain of a split, as a share of the impurity of the root: the Gini index of a
            nominal attribute, the variance of one with numbers.
        pruning: "misclassification" takes splits of nominal attributes back that do not lower
            the number of records outside the commonest class of their leaf, as rpart does.
        smoothing: "density" adds normal noise to numbers that were drawn.
        rules: The first that holds fixes the code.
    """

    order: str | Clique = DECLARED
    predictors: Mapping[str, Clique] = field(default_factory=dict)
    minimum_leaf: int = 5
    complexity: float = 1e-8
    pruning: str = "none"
    smoothing: str = "none"
    rules: tuple[CodeRule, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.minimum_leaf <= _LARGEST_LEAF:
            expected = f"a whole number from 1 to {_LARGEST_LEAF}"
            raise InvalidNumberError(field="minimum_leaf", expected=expected)
        if not (isfinite(self.complexity) and 0 <= self.complexity < 1):
            raise InvalidNumberError(field="complexity", expected="at least 0 and below 1")
        for name, words in _CHOICES.items():
            if getattr(self, name) not in words:
                raise InvalidInputError(field=name, problem=f"must be one of {', '.join(words)}")


def options_of(parameters: Parameters) -> Options:
    """Options from a card's parameters; lists of names, predictors and rules are JSON."""
    order: str | Clique = parameters["order"]
    if order not in (DECLARED, BY_LEVELS):
        order = _names("order", _json("order", parameters["order"]))
    predictors = _of_kind(
        dict, "predictors", _json("predictors", parameters["predictors"]), "must be an object"
    )
    return Options(
        order=order,
        predictors={name: _names("predictors", names) for name, names in predictors.items()},
        minimum_leaf=whole(parameters, "minimum_leaf", 1, _LARGEST_LEAF),
        complexity=_number(parameters, "complexity"),
        pruning=parameters["pruning"],
        smoothing=parameters["smoothing"],
        rules=rules_of(_json("rules", parameters["rules"])),
    )


def rules_of(value: Any) -> tuple[CodeRule, ...]:
    """Rules from JSON: a list of ``{"attribute": NAME, "code": CODE, "where": {NAME: [CODE, ...]}}``.

    Raises:
        InvalidInputError: It has another form.
    """
    form = {"attribute", "code", "where"}
    rules = _list("rules", value)
    if not all(isinstance(rule, dict) and rule.keys() == form for rule in rules):
        raise InvalidInputError(
            field="rules", problem="each rule needs an attribute, a code and a where"
        )
    read = []
    for rule in rules:
        name = _of_kind(str, "rules", rule["attribute"], "names must be text")
        code = _code(rule["code"])
        conditions = _of_kind(dict, "rules", rule["where"], "must be an object")
        where = tuple(
            (of, tuple(_code(one) for one in _list("rules", codes))) for of, codes in conditions.items()
        )
        read.append(CodeRule(name, code, where))
    return tuple(read)


Kind = TypeVar("Kind")


def _names(field: str, value: Any) -> Clique:
    return tuple(_of_kind(str, field, name, "names must be text") for name in _list(field, value))


def _list(field: str, value: Any) -> list[Any]:
    return _of_kind(list, field, value, "must be a list")


def _code(value: Any) -> int:
    if isinstance(value, bool):
        value = None
    return _of_kind(int, "rules", value, "codes must be whole numbers")


def _of_kind(kind: type[Kind], field: str, value: Any, problem: str) -> Kind:
    if not isinstance(value, kind):
        raise InvalidInputError(field=field, problem=problem)
    return value


def _json(field: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInputError(
            field=field, problem="is neither a known keyword nor valid JSON"
        ) from None


def _number(parameters: Parameters, field: str) -> float:
    try:
        return float(parameters[field])
    except ValueError:
        raise InvalidNumberError(field=field, expected="a number") from None


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One attribute, what it is predicted from, and the rules for it."""

    attribute: str
    predictors: Clique
    rules: tuple[CodeRule, ...]


def planned_steps(options: Options, domain: Domain) -> tuple[PlannedStep, ...]:
    """One for each attribute of the domain."""
    order = tuple(options.order)
    if options.order == DECLARED:
        order = domain.attributes
    elif options.order == BY_LEVELS:
        order = tuple(sorted(domain.attributes, key=domain.size))
    elif sorted(order) != sorted(domain.attributes):
        raise InvalidInputError(field="order", problem="must name every attribute exactly once")
    domain.axes(tuple(options.predictors))
    for rule in options.rules:
        rule.check(domain)
    steps = []
    for place, attribute in enumerate(order):
        earlier = order[:place]
        predictors = options.predictors.get(attribute, earlier)
        rules = tuple(rule for rule in options.rules if rule.attribute == attribute)
        conditions = {condition for rule in rules for condition, _ in rule.where}
        for name, names in (("predictors", set(predictors)), ("rules", conditions)):
            if not names <= set(earlier):
                problem = f"'{attribute}' depends on an attribute that does not come before it"
                raise InvalidInputError(field=name, problem=problem)
        steps.append(PlannedStep(attribute, tuple(dict.fromkeys(predictors)), rules))
    return tuple(steps)


# Fitted trees.


@dataclass(frozen=True, slots=True, eq=False)
class DrawStep:
    """Rules first, then one conditional after the other draws what is still ``FREE``.

    Args:
        conditionals: One; two where numbers may be missing: which code of a missing value if any,
            and then the number.
        density: Smooths what was drawn; None leaves it.
    """

    axis: int
    rules: tuple[CodeRule, ...]
    conditionals: tuple[Conditional, ...]
    density: Density | None = None

    def draw(self, codes: NDArray[Any], domain: Domain, rng: np.random.Generator) -> NDArray[np.int64]:
        """Codes of the attribute, from those ``(n, d)`` of the attributes before it: shape ``(n,)``."""
        column = ruled(self.rules, codes, domain)
        fixed = column != FREE
        for each in self.conditionals:
            free = np.flatnonzero(column == FREE)
            column[free] = each.draw(codes[free], rng)
        if self.density is None:
            return column
        return np.where(fixed, column, self.density.smooth(column, rng))


def step_of(
    plan: PlannedStep,
    dataset: Dataset,
    numbers: Mapping[str, FloatArray],
    growth: Growth,
    *,
    random_state: int,
) -> DrawStep:
    """Grown on the records for which no rule holds; on all of them where a rule holds for each."""
    fixed = ruled(plan.rules, dataset.codes, dataset.domain)
    free = np.flatnonzero(fixed == FREE)
    records = dataset.take(free) if 0 < len(free) < len(dataset) else dataset
    grow = partial(
        conditional,
        predictors=plan.predictors,
        numbers=numbers,
        growth=growth,
        random_state=random_state,
    )
    codes, own = records.column(plan.attribute), numbers.get(plan.attribute)
    conditionals: tuple[Conditional, ...]
    if own is None or np.isnan(own[codes]).all():
        conditionals = (grow(records, nominal(codes)),)
    else:
        missing = np.isnan(own[codes])
        known = records.take(np.flatnonzero(~missing))
        conditionals = (grow(known, numeric(codes[~missing], own)),)
        if missing.any():
            which = nominal(np.where(missing, codes.astype(np.int64), FREE))
            conditionals = (grow(records, which), *conditionals)
    return DrawStep(dataset.domain.axis(plan.attribute), plan.rules, conditionals)


_VERSION = 1
_KIND = "synthpop"
_BLOCK_ROWS = 65_536
"""Rows drawn at a time: memory stays flat."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedTrees:
    """One step for each attribute of the domain, in the order in which they are drawn."""

    domain: Domain
    steps: tuple[DrawStep, ...]

    def sample(self, rows: int, *, seed: int) -> Dataset:
        """Synthetic records, ``rows`` of them.

        Raises:
            InvalidNumberError: ``rows`` is negative, or the seed outside 0..2**64-1.
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="zero or more")
        rng = rng_of(seed)
        width = code_dtype(max(self.domain.sizes, default=1))
        codes = np.zeros((rows, len(self.domain)), dtype=width, order="F")
        for begin in range(0, rows, _BLOCK_ROWS):
            block = codes[begin : begin + _BLOCK_ROWS]
            for step in self.steps:
                block[:, step.axis] = step.draw(block, self.domain, rng)
        return Dataset(self.domain, codes)

    def save(self) -> bytes:
        """Trees, codes in their leaves, and rules: equal fits give equal bytes.

        These bytes are as sensitive as the records.
        """
        arrays: dict[str, Any] = {}
        headers = []
        for number, step in enumerate(self.steps):
            headers.append(
                {
                    "axis": step.axis,
                    "rules": [  # as ``rules_of`` reads them
                        {"attribute": rule.attribute, "code": rule.code, "where": dict(rule.where)}
                        for rule in step.rules
                    ],
                    "predictors": [each.predictors for each in step.conditionals],
                    "bandwidth": step.density.bandwidth if step.density else None,
                }
            )
            for place, each in enumerate(step.conditionals):
                name, tree = f"{number}.{place}", each.tree
                arrays |= {
                    f"{name}.places": np.concatenate([np.zeros(0, dtype=np.int64), *each.places]),
                    f"{name}.tree": np.stack([tree.predictor, tree.cut, tree.left, tree.right]),
                    f"{name}.donors": each.donors,
                    f"{name}.starts": each.starts,
                }
            if step.density:
                arrays[f"{number}.numbers"] = step.density.numbers
        header = {
            "version": _VERSION,
            "kind": _KIND,
            "attributes": self.domain.attributes,
            "sizes": self.domain.sizes,
            "steps": headers,
        }
        return archived(header, arrays)


def _step(domain: Domain, number: int, header: Mapping[str, Any], arrays: Arrays) -> DrawStep:
    conditionals = []
    for place, predictors in enumerate(map(tuple, header["predictors"])):
        name = f"{number}.{place}"
        ends = np.cumsum([domain.sizes[axis] for axis in predictors], dtype=np.int64)
        places = tuple(np.split(arrays[f"{name}.places"], ends)[:-1])
        tree, donors = Tree(*arrays[f"{name}.tree"]), arrays[f"{name}.donors"]
        conditionals.append(Conditional(predictors, places, tree, donors, arrays[f"{name}.starts"]))
    density = None
    if header["bandwidth"] is not None:
        density = Density(arrays[f"{number}.numbers"], header["bandwidth"])
    return DrawStep(header["axis"], rules_of(header["rules"]), tuple(conditionals), density)


def _is_sound(step: DrawStep, earlier: set[int], domain: Domain) -> bool:
    """Whether a step draws from earlier attributes alone, and no code leaves its domain."""
    for rule in step.rules:
        rule.check(domain)
    predictors = {axis for each in step.conditionals for axis in each.predictors}
    predictors |= {domain.axis(name) for rule in step.rules for name, _ in rule.where}
    if not (predictors <= earlier and 1 <= len(step.conditionals) <= 2):
        return False
    if not all(each.is_sound(domain) for each in step.conditionals):
        return False
    lowest = [FREE, 0][-len(step.conditionals) :]
    donors = [each.donors for each in step.conditionals]
    inside = all(
        d.min() >= low and d.max() < domain.sizes[step.axis]
        for d, low in zip(donors, lowest, strict=True)
    )
    if not inside or step.density is None:
        return inside
    numbers, bandwidth = step.density.numbers, step.density.bandwidth
    return bool(
        numbers.shape == (domain.sizes[step.axis],)
        and numbers.dtype == np.float64
        and not np.isinf(numbers).any()
        and not np.isnan(numbers).all()
        and isinstance(bandwidth, float)
        and 0 <= bandwidth < np.inf
    )


_RANDOM_STATES = 2**32
"""Number of seeds that scikit-learn takes: 0 to 2**32 - 1."""


@dataclass(frozen=True, slots=True)
class SynthPop:
    """Each attribute drawn from the leaf of a tree grown on the attributes before it [1]_.

    The first attribute is a bootstrap of its records. Names are drawn by classification trees,
    numbers by regression trees; where numbers may be missing, first whether they are.

    Args:
        values: For each attribute with numbers that of each code, NaN for missing.

    References:
        .. [1] B. Nowok, G. M. Raab, C. Dibben, "synthpop: Bespoke Creation of Synthetic Data in R",
           Journal of Statistical Software 74(11), 2016.
    """

    options: Options = field(default_factory=Options)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.fit(dataset, seed=seed).sample(rows, seed=seed)

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> FittedTrees:
        """Grow the trees; the seed decides between equally good splits.

        Raises:
            InvalidDatasetError: There is no record.
            InvalidInputError: Options or numbers do not fit the domain.
        """
        domain = dataset.domain
        plans = planned_steps(self.options, domain)
        sizes = zip(domain.attributes, domain.sizes, strict=True)
        every = {name: numbers_of_codes(self.values, name, size) for name, size in sizes}
        numbers = {name: own for name, own in every.items() if not np.isnan(own).all()}
        if not len(dataset):
            raise InvalidDatasetError(problem="it has no records")
        rng = rng_of(seed)
        options = self.options
        growth = Growth(options.minimum_leaf, options.complexity, options.pruning == "misclassification")
        steps = []
        for number, plan in enumerate(plans, 1):
            state = int(rng.integers(_RANDOM_STATES))
            step = step_of(plan, dataset, numbers, growth, random_state=state)
            own = numbers.get(plan.attribute) if options.smoothing == "density" else None
            if own is not None:
                step = replace(step, density=density_of(own, dataset.column(plan.attribute)))
            steps.append(step)
            progress(f"tree of '{plan.attribute}'", number / len(plans))
        return FittedTrees(dataset.domain, tuple(steps))

    def load(self, saved: bytes) -> FittedTrees:
        """A fit that was saved.

        Raises:
            BlackBoxError: The bytes are not what ``save`` gave, or over the bound of an archive.
        """
        try:
            header, arrays = unarchived(saved, most_bytes=2**30, version=_VERSION)
            domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
            steps = tuple(
                _step(domain, number, step, arrays) for number, step in enumerate(header["steps"])
            )
            axes = [step.axis for step in steps]  # every attribute is drawn once, from those before it
            if (header["kind"] == _KIND and sorted(axes) == list(range(len(domain)))) and all(
                _is_sound(step, {*axes[:place]}, domain) for place, step in enumerate(steps)
            ):
                return FittedTrees(domain, steps)
        except (*BROKEN, AttributeError, IndexError):
            pass
        raise BlackBoxError(problem="the saved bytes are not a fit of this black box")


ENTRY = BoxEntry(
    description="Each attribute drawn from the leaves of a classification or regression tree on those "
    "before it (synthpop's CART).",
    parameters=DEFAULTS,
    claim=lambda _: Claim(
        "No formal privacy is promised: rows repeat the codes of records, attribute by attribute."
    ),
    make=lambda parameters, surroundings: SynthPop(options_of(parameters), surroundings.values),
    libraries=("opendp", "scikit-learn"),
)
