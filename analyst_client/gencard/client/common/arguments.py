"""Arguments of public calls, checked by name before anything is sent: one table, one decorator.

A parameter of one name means the same in every call, so its check is found by its name in ``CHECKS``.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import partial, wraps
from operator import index
from os import PathLike
from typing import Any, NoReturn, ParamSpec, TypedDict, TypeVar, get_args

from gencard.core.card.budget import Neighbouring
from gencard.core.card.sums import Histogram, Moment, Sum
from gencard.core.card.terms import LEAST_RUNS, MOST_ROWS, MOST_RUNS, AuditTerms
from gencard.core.errors import InvalidInputError, InvalidNumberError, advice_on
from gencard.core.program_outputs import DIGITS
from gencard.core.statistics.formula import Analysis
from gencard.run.levels import ValueForm
from gencard.wire.documents import values_refused

# Questions to psi or to the records: a formula, a kind of analysis, and its options.


Values = Mapping[str, Sequence[float]]
"""By attribute, the number that each level stands for, in the order of the schema."""

KINDS = {
    "linear": "linear regression of a number: y ~ a + b",
    "logistic": "logistic regression of an attribute with two levels",
    "multinomial": "logistic regression of an attribute with several levels",
    "ordinal": "proportional odds of an attribute with ordered levels",
    "poisson": "Poisson regression of a count",
    "loglinear": "log-linear model of a table: ~ a:b + b:c",
    "crosstab": "tables with chi-squared, Cramér's V, odds ratio: y ~ a, or ~ a:b",
    "means": "mean and variance of a number in each group: y ~ group",
    "quantiles": "the level that contains a quantile, in each group: y ~ group",
    "ttest": "t test of a number between two groups: y ~ group",
    "anova": "analysis of variance of a number between groups: y ~ group",
    "correlation": "correlation matrix of numbers: ~ a + b + c",
    "components": "principal components of numbers: ~ a + b + c",
    "correspondence": "multiple correspondence analysis: ~ a + b + c",
    "polychoric": "polychoric correlations of ordered attributes: ~ a + b + c",
    "naive-bayes": "naive Bayes classifier: y ~ a + b + c",
    "chow-liu": "Chow-Liu tree of the strongest dependences: ~ a + b + c",
    "discriminant": "linear discriminant analysis: y ~ a + b + c",
    "kaplan-meier": "survival curves of groups: time ~ event + group",
    "cox": "Cox regression: time ~ event + a + b",
}
"""A line for each kind of analysis that psi can determine."""

TAKES: Mapping[str, tuple[str, ...]] = {
    "crosstab": ("alpha",),
    "linear": ("response",),
    "means": ("alpha", "response"),
    "quantiles": ("q", "response"),
    "ttest": ("alpha", "response", "test", "value"),
    "anova": ("alpha", "response", "test", "typ"),
    "correlation": ("alpha", "method", "response"),
    "components": ("components", "matrix"),
    "correspondence": ("components",),
    "naive-bayes": ("smoothing",),
}
"""Options that a kind takes besides those of every kind."""


class AnswerOptions(TypedDict, total=False):
    """Options of an analysis, besides formula and kind.

    Args:
        values: In answers from psi, by attribute, the number that each level stands for, such as
            ``{"age": [20, 40, 70]}``; default: whole-number labels, and the midpoints of edges. Runs on
            the records take the declared numbers only.
        where: Only these records, such as ``"region == 'North' and age < 40"``.
        missing: "level": missing values are a level; "drop": leave out records with one.
        bootstrap: Draws of a bootstrap, 100 or more: an interval of each number, where psi has noise.
        bootstrap_seed: From which they are drawn.
        alpha: 1 minus the coverage of intervals in tables.
        test: Of ``ttest``: "pooled", "welch" or "mann-whitney"; of ``anova``, its statistic.
        value: Of ``ttest``: the mean or difference to compare with.
        typ: Of ``anova``: type of the sums of squares.
        q: Of ``quantiles``: shares, such as ``[0.25, 0.5, 0.75]``.
        response: In a run on the records: "levels" for a number for each level, "stored" for numbers as
            the records have them; default: these, where the schema declares a step and the policy
            permits them.
        method: Of ``correlation``: "pearson", "spearman" or "kendall".
        matrix: Of ``components``: "correlation" or "covariance".
        components: Of ``components`` and ``correspondence``: how many.
        smoothing: Of ``naive-bayes``: added to each count.
    """

    values: Values | None
    where: str | None
    missing: str | None
    bootstrap: int | None
    bootstrap_seed: int | None
    alpha: float | None
    test: str | None
    value: float | None
    typ: float | None
    q: Sequence[float] | None
    response: str | None
    method: str | None
    matrix: str | None
    components: int | None
    smoothing: float | None


_OF_ALL = ("values", "where", "missing", "bootstrap", "bootstrap_seed")
_FEWEST_DRAWS, _MOST_DRAWS = 100, 100_000


@dataclass(frozen=True, slots=True)
class AnalystQuestion:
    """A formula and its kind.

    Raises:
        InvalidInputError: The kind does not take one of the options.
        InvalidNumberError: Too few draws of a bootstrap, or too many, or a seed below 0.
    """

    formula: str
    kind: str = "logistic"
    values: Values | None = None
    where: str = ""
    missing: str = "level"
    bootstrap: int = 0
    bootstrap_seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, formula: str, kind: str, given: AnswerOptions) -> "AnalystQuestion":
        """The question; options that are None count as not given."""
        own_options = {name: value for name, value in given.items() if value is not None}
        common = {name: own_options.pop(name) for name in _OF_ALL if name in own_options}
        return cls(formula, kind, options=own_options, **common)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.bootstrap and not _FEWEST_DRAWS <= self.bootstrap <= _MOST_DRAWS:
            expected = f"a whole number from {_FEWEST_DRAWS} to {_MOST_DRAWS}"
            raise InvalidNumberError(field="bootstrap", expected=expected)
        if self.bootstrap_seed < 0:
            raise InvalidNumberError(field="bootstrap_seed", expected="a whole number of 0 or more")
        takes = TAKES.get(self.kind, ())
        for name in self.options:
            if name not in takes:
                problem = f"is not an option of kind {self.kind}"
                advice = advice_on(name, [*_OF_ALL, *takes])
                raise InvalidInputError(field=name, problem=problem, advice=advice)


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Check = Callable[[str, Any], Any]
"""From a parameter's name and an argument to the value to use; raises InvalidInputError."""

LARGEST_WORD = 2**64 - 1
"""Largest seed and largest position in the log: unsigned 64-bit numbers on the wire."""

_OPTIONS = inspect.Parameter.VAR_KEYWORD


class Where(StrEnum):
    """The records on which an audit is based."""

    MADE_UP = "made-up"
    CARD = "card"


def checked(**others: Check) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Check the arguments of a public call, and show its real options.

    Options that are unpacked from ``Measured`` become parameters of the signature and of the
    docstring, so that ``help`` and completion show them. None stays None where it is the default.

    Args:
        others: Checks that differ from those of ``CHECKS``, by the parameter's name.
    """

    def wrap(call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        own_signature = inspect.signature(call)
        own = own_signature.parameters.values()
        # the TypedDict of the unpacked options; each of them is named in signature and docstring
        options: object = next((one.annotation.__args__[0] for one in own if one.kind is _OPTIONS), None)
        option = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY, default=None)
        kinds = getattr(options, "__annotations__", {}).items()
        spelled = [option(name, annotation=kind) for name, kind in kinds]
        parameters = [one for one in own if one.kind is not _OPTIONS]
        signature = own_signature.replace(parameters=[*parameters, *spelled])

        @wraps(call)
        def checked_call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            bound = _bound(call.__name__, signature, args, kwargs)
            for name, value in bound.arguments.items():
                check = others.get(name) or CHECKS.get(name)
                if check is not None and (value is not None or signature.parameters[name].default):
                    bound.arguments[name] = check(name, value)
            return call(*bound.args, **bound.kwargs)

        checked_call.__signature__ = signature  # type: ignore[attr-defined]
        lines = inspect.cleandoc(options.__doc__ or "").partition("Args:\n")[2].splitlines()
        checked_call.__doc__ = re.sub(
            r"^( +)(?:measured|options): .*$",
            lambda line: "\n".join(line[1] + text.removeprefix("    ") for text in lines),
            call.__doc__ or "",
            flags=re.MULTILINE,
        )
        return checked_call

    return wrap


def _bound(
    call: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments by the names of the parameters; raises InvalidInputError where they do not fit."""
    names = [name for name in signature.parameters if name not in {"self", "cls"}]
    for unknown in kwargs.keys() - signature.parameters.keys():
        problem = f"is not an argument of {call}"
        raise InvalidInputError(field=unknown, problem=problem, advice=advice_on(unknown, names))
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        missing = _missing(signature, args, kwargs)
    if missing:
        advice = f"Write {call}(..., {missing[0]}=...)."
        raise InvalidInputError(field=missing[0], problem=f"is required by {call}", advice=advice)
    named_only = inspect.Parameter.KEYWORD_ONLY
    first = [name for name in names if signature.parameters[name].kind is not named_only]
    problem = f"takes only {', '.join(first) or 'nothing'} as positional arguments, each once"
    advice = f"Pass every other argument by name: {', '.join(f'{name}=' for name in names)}."
    raise InvalidInputError(field=call, problem=problem, advice=advice)


def _missing(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Required parameters without an argument; none where the arguments do not fit otherwise."""
    try:
        arguments = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return []
    required = [one.name for one in signature.parameters.values() if one.default is one.empty]
    return [name for name in required if name not in arguments]


def refuse(field: str, value: object, expected: str, advice: str) -> NoReturn:
    """Raises InvalidInputError: what the argument must be, what it is, and what to write."""
    problem = f"must be {expected}, not {_shown(value)}"
    raise InvalidInputError(field=field, problem=problem, advice=advice)


def _shown(value: object) -> str:
    """A short value as it was written; of anything else the type, as it may hold data."""
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)[:40]
    return f"a value of type {type(value).__name__}"


def checked_number(field: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds; a truth value is none.

    >>> checked_number("rows", 7, 1, 10)
    7

    Raises:
        InvalidNumberError: It is not a whole number, or out of bounds.
    """
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is not None and least <= number <= most:
        return number
    expected = f"a whole number from {least} to {most}, not {_shown(value)}"
    advice = f"Write, for example, {field}={min(max(least, _EXAMPLES.get(field, 1)), most)}."
    if isinstance(value, str) and len(value) < 20 and value.strip().isdecimal():
        advice = f"Write {field}={int(value)}, without quotation marks."
    elif isinstance(value, float) and value.is_integer() and value >= least:
        advice = f"Write {field}={int(value)}."
    raise InvalidNumberError(field=field, expected=expected, advice=advice)


def checked_rows(rows: int) -> int:
    """The number of rows of a release or of a run; raises InvalidNumberError."""
    return checked_number("rows", rows, 1, MOST_ROWS)


def checked_seed(seed: int) -> int:
    """A seed; raises InvalidNumberError."""
    return checked_number("seed", seed, 0, LARGEST_WORD)


def whole(least: int, most: int) -> Check:
    """``checked_number`` with these bounds."""
    return lambda field, value: checked_number(field, value, least, most)


def text(field: str, value: Any) -> str:
    if isinstance(value, str) and value.strip():
        return value
    name = getattr(value, "name", "")
    if isinstance(name, str) and name:
        refuse(field, value, "a name", f"Write {field}={name[:80]!r}, which is its name.")
    return refuse(field, value, "non-empty text", f'Write {field}="...".')


def optional_text(field: str, value: Any) -> str:
    return value and text(field, value)


def _if(is_right: Callable[[Any], bool], expected: str, advice: str) -> Check:
    """Check that a value is right; ``advice`` has ``<field>`` in place of the parameter's name."""

    def check(field: str, value: Any) -> Any:
        if is_right(value):
            return value
        return refuse(field, value, expected, advice.replace("<field>", field))

    return check


flag = _if(
    lambda value: isinstance(value, bool), "True or False", "Write <field>=True or <field>=False."
)
path = _if(
    lambda value: isinstance(value, str | PathLike) and bool(str(value)),
    "a path",
    'Write <field>="folder/file" or <field>=Path("folder/file").',
)
number = _if(
    lambda value: isinstance(value, Decimal | int | float | str) and not isinstance(value, bool),
    "a number",
    "Write, for example, <field>=0.5.",
)
progress = _if(
    lambda value: isinstance(value, bool) or callable(value),
    "True, False or a function",  # a function of stage and share
    "Write <field>=False to show nothing.",
)


def choice(*names: str) -> Check:
    def check(field: str, value: Any) -> str:
        if isinstance(value, str) and value in names:
            return value
        expected = " or ".join(names) if len(names) < _MANY else f"one of the {len(names)} {field}s"
        return refuse(field, value, expected, advice_on(str(value)[:80], names))

    return check


def names_only(field: str, value: Any) -> list[str]:
    if isinstance(value, str):
        names_text = ", ".join(map(repr, _split(value)))
        refuse(field, value, "a list of names", f"Write {field}=[{names_text}].")
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        refuse(field, value, "a list of names", f'Write {field}=["...", "..."].')
    return [text(field, name) for name in value]


def statistics(field: str, value: Any) -> Any:
    """Phi: ``all_marginals(...)``, or a list of statistics; a flat list of names is unclear."""
    if _is_a(value, "AllMarginals"):
        return value
    if isinstance(value, str):
        refuse(field, value, "a list of marginals", _marginals_advice(field, _split(value)))
    if isinstance(value, Moment):
        refuse(field, value, "a list of statistics", f"Write {field}=[...] around the moment.")
    if isinstance(value, Histogram | Sum):
        refuse(field, value, "a list of statistics", f"Write {field}=[...] around it.")
    if not isinstance(value, Iterable) or isinstance(value, Mapping) or hasattr(value, "columns"):
        refuse(field, value, "a list of marginals", _marginals_advice(field, ["a", "b"]))
    items = list(value)
    if len(items) > 1 and all(isinstance(one, str) for one in items):
        problem = "is a flat list of names: it could mean one joint table, or one table for each name"
        raise InvalidInputError(field=field, problem=problem, advice=_marginals_advice(field, items))
    return [_statistic(field, one) for one in items]


def cliques(field: str, value: Any) -> list[tuple[str, ...]]:
    advice = _marginals_advice(field, ["a", "b"])
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        refuse(field, value, "a list of marginals", advice)
    items = list(value)
    if any(isinstance(one, str) or not isinstance(one, Iterable) for one in items):
        refuse(field, value, "a list of marginals, each a tuple of attribute names", advice)
    return [tuple(text(field, name) for name in one) for one in items]


def _statistic(field: str, value: Any) -> Any:
    if isinstance(value, str | Moment | Histogram | Sum) or _is_a(value, "AllMarginals"):
        return value
    if not isinstance(value, Iterable) or not all(isinstance(name, str) for name in value):
        expected = "a list of marginals, each a tuple of attribute names"
        refuse(field, value, expected, _marginals_advice(field, ["a", "b"]))
    return tuple(value)


def _marginals_advice(field: str, names: Sequence[str]) -> str:
    quoted = [f'"{name[:40]}"' for name in names[:4]]
    joint, single = ", ".join(quoted), ", ".join(f"({name},)" for name in quoted)
    joint += "," * (len(quoted) == 1)
    apart = f", or {field}=[{single}] for one table each" if len(quoted) > 1 else ""
    return f"Write {field}=[({joint})] for one table{apart}; all_marginals(2) gives all pairs."


def _split(value: str) -> list[str]:
    return [name for name in re.split(r"[,;×*+~\s]+", value) if name]


def shares(field: str, value: Any) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, value if isinstance(value, Iterable) else [value]))
    except (TypeError, ValueError):
        numbers = ()
    if numbers and all(0 < share < 1 for share in numbers):
        return numbers
    return refuse(field, value, "shares between 0 and 1", f"Write {field}=[0.25, 0.5, 0.75].")


def level_values(field: str, value: Any) -> Mapping[str, list[float]]:
    """For each attribute the number that each of its levels stands for."""
    advice = f'Write {field}={{"age": [20, 40, 70]}}: a number for each level, in the schema\'s order.'
    if not isinstance(value, Mapping):
        refuse(field, value, "a mapping from attributes to numbers", advice)
    numbers: dict[str, list[float]] = {}
    for name, level_numbers in value.items():
        try:
            numbers[text(field, name)] = [float(number) for number in level_numbers]
        except (TypeError, ValueError):
            refuse(field, level_numbers, f"numbers for {name[:40]!r}", advice)
    return numbers


def values_of_before(field: str, value: Any) -> Mapping[str, list[float]]:
    """The same of a run, which takes such numbers only where it was answered before it took none."""
    try:
        return level_values(field, value)
    except InvalidInputError:
        raise values_refused() from None


def several(kind: str, advice: str) -> Check:
    """A list of values of one class, given by name."""

    def check(field: str, value: Any) -> list[Any]:
        items = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
        if not all(_is_a(one, kind) for one in items) or _is_a(value, kind):
            refuse(field, value, f"a list, each of type {kind}", advice)
        return items

    return check


def instance(*kinds: str, advice: str) -> Check:
    """A value of one of these classes, given by name, so that pandas is not loaded for it."""
    return _if(lambda value: _is_a(value, *kinds), f"of type {' or '.join(kinds)}", advice)


def _is_a(value: object, *kinds: str) -> bool:
    """Whether a value is of one of these classes, known by name."""
    return any(base.__name__ in kinds for base in type(value).__mro__)


def seconds(field: str, value: Any) -> float:
    """A length of time: a number of seconds from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        refuse(field, value, "a number of seconds", f"Write, for example, {field}=60.")
    return float(value)


_MANY = 10
"""Number of permitted words from which on an error lists them in its advice alone."""

_EXAMPLES = {"rows": 1_000, "seed": 7, "order": 2, "runs": 40}
_READ_FIRST = "A file must be read first, such as pandas.read_csv(path) or pandas.read_parquet(path)."
_ANALYSES = 'Write analyses={"kinds": ["linear"], "checked_runs": 2}.'
_WEIGHTS = 'Write weights={("sex", "health"): 3}.'

CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("dataset", "purpose", "generator", "formula", "name"), text),
    **dict.fromkeys(("release", "black_box", "address", "attribute", "by", "one", "other"), text),
    **dict.fromkeys(("reason", "resource", "fingerprint", "action", "shown"), text),
    **dict.fromkeys(("test", "method", "matrix"), text),
    **dict.fromkeys(("resume", "role", "project", "where", "query", "remark", "code"), optional_text),
    **dict.fromkeys(("folder", "certificate", "key", "authority", "signing_key", "request"), path),
    **dict.fromkeys(("controller_key", "log_key", "scratch", "path", "program", "file"), path),
    **dict.fromkeys(("accept", "dry_run", "measure", "replace", "again", "without_uniques"), flag),
    **dict.fromkeys(("epsilon", "rho", "delta", "alpha", "value", "typ", "smoothing"), number),
    **dict.fromkeys(("names", "measures", "attributes", "libraries", "present"), names_only),
    **dict.fromkeys(("seed", "index", "bootstrap_seed"), whole(0, LARGEST_WORD)),
    "rows": whole(1, MOST_ROWS),
    "runs": whole(LEAST_RUNS, MOST_RUNS),
    "order": whole(1, 65_536),
    "marginals": statistics,
    "values": choice(*get_args(ValueForm)),
    "kind": choice(*Analysis),
    "neighbouring": choice(*Neighbouring),
    "answer": lambda field, value: value if isinstance(value, bytes) else path(field, value),
    "progress": progress,
    "audit": instance(AuditTerms.__name__, advice="Write audit=AuditTerms(runs=..., order=...)."),
    "card": instance("str", "CardReview", advice="Write card=steward.review(name)."),
    "preview": instance("Preview", advice="Write preview=steward.preview(...)."),
    "arguments": instance("Mapping", "dict", advice='Write arguments={"black_box": "trees"}.'),
    "drop": cliques,
    "withhold": names_only,
    "red": flag,
    "digits": whole(1, DIGITS),
    "last": whole(1, 1_000_000),
    "missing": choice("level", "drop"),
    "response": choice("levels", "stored", "coded"),
    "components": whole(1, 1_000),
    "bootstrap": whole(0, 100_000),
    "q": shares,
    "connection": path,
    "answers": several("Answer", 'Write answers=[card.answer("...")].'),
    "data": instance("DataFrame", "Release", "Dataset", advice=_READ_FIRST),
    "records": instance("Dataset", advice="Omit records to use made-up ones."),
    "privacy": instance("Exact", "AddedNoise", "InsideGenerator", advice="Use epsilon= or rho=."),
    "analyses": instance("Analyses", "Mapping", "dict", advice=_ANALYSES),
    **dict.fromkeys(("seconds", "timeout"), seconds),
    "for_": choice("answered", "agreed", "audited"),
    "weights": instance("Mapping", "dict", advice=_WEIGHTS),
}
"""By the name of the parameter."""
