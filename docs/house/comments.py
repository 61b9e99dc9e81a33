"""Comments at the tricks: the places of each topic where a reader needs the reason, and their comments.

A place is a module, or a function or class as ``module:name`` or ``module:Class.name``. A function that
moves or goes takes its entry along: the tests refuse a place that does not exist or has no comment.
"""

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.table import Table

from docs.house.module import explains
from docs.house.sources import SOURCES

_CORE, _CONTROLLER, _FILES = "gencard.core.", "gencard.controller.", "gencard.files."
_STATISTICS, _PAIRS = f"{_CORE}statistics.", f"{_CORE}audit."
_ENTROPY = f"{_CORE}generators."
_PRIVACY = "gencard.measures.privacy."
_RULES = "gencard.analysis.output_checks."
_SERVICE, _SANDBOX = f"{_CONTROLLER}service.", f"{_CONTROLLER}sandbox."
_STATE, _PAGE, _RECORDS = f"{_CONTROLLER}state.", f"{_CONTROLLER}page.", f"{_CONTROLLER}records."

TOPICS: Mapping[str, tuple[str, ...]] = {
    "consistency": (
        f"{_STATISTICS}psi:check_consistent",
        f"{_STATISTICS}psi:_check_agrees",
        f"{_STATISTICS}measure:measure",
    ),
    "reconcile": (
        f"{_STATISTICS}psi:reconcile",
        f"{_STATISTICS}psi:on_simplex",
        f"{_STATISTICS}psi:interactions_of",
        f"{_STATISTICS}psi:_pure",
        f"{_STATISTICS}psi:_lift",
    ),
    "extremal pairs": (
        f"{_PAIRS}extremal_pair:extremal_pair",
        f"{_PAIRS}extremal_pair:farthest",
        f"{_PAIRS}moves:climb",
        f"{_PAIRS}moves:_partners",
        f"{_PAIRS}moves:_some",
        f"{_PAIRS}moves:_take",
        f"{_PAIRS}direction:_steepest",
        f"{_PAIRS}direction:only_change",
        f"{_PAIRS}moves:_complement",
        f"{_PAIRS}direction:Basis.difference",
        f"{_PAIRS}extremal_pair:CandidateCubes.apart_from",
        f"{_CORE}audit.exploration:pooled_p_value",
        f"{_CORE}audit.exploration:windows",
    ),
    "nearest neighbours": (
        f"{_PRIVACY}nearest:_distinct",
        f"{_PRIVACY}nearest:_search",
        f"{_PRIVACY}nearest:_look",
        f"{_PRIVACY}nearest:chance_of_clone",
        f"{_PRIVACY}distances:GroupRanges.gap",
        f"{_PRIVACY}distances:_parts",
        f"{_PRIVACY}nearest:RunningNearest.add",
        f"{_PRIVACY}nearest:_note",
        f"{_PRIVACY}nearest:_rare",
    ),
    "triangles": (
        f"{_ENTROPY}fitting:Triangle.__init__",
        f"{_ENTROPY}fitting:Triangle.marginal",
        f"{_ENTROPY}fitting:_contract",
        f"{_ENTROPY}fitting:three_parts",
    ),
    "junction tree": (
        f"{_ENTROPY}junction_tree:JunctionTree.__post_init__",
        f"{_ENTROPY}junction_tree:JunctionTree._linked",
        f"{_ENTROPY}junction_tree:_eliminated",
        f"{_ENTROPY}junction_tree:_cost",
        f"{_ENTROPY}junction_tree:information_tree",
        f"{_ENTROPY}fitting:TreeTable.__init__",
        f"{_ENTROPY}models:TreeModel.__post_init__",
    ),
    "fits and draws": (
        f"{_ENTROPY}fitting:_sweep",
        f"{_ENTROPY}fitting:_settle",
        f"{_ENTROPY}fitting:_repeated",
        f"{_ENTROPY}fitting:relax",
        f"{_ENTROPY}models:_thresholds",
    ),
    "exact noise": (
        f"{_STATISTICS}noise:noisy_marginal",
        f"{_STATISTICS}noise:sensitivity",
        f"{_STATISTICS}noise:epsilon_of",
        f"{_CORE}card.privacy:Laplace.scale",
        f"{_CORE}card.privacy:Laplace.stddev",
        f"{_CORE}card.privacy:Gaussian.stddev",
        f"{_STATISTICS}noise:SumNoise.added",
        f"{_STATISTICS}noise:sum_sensitivity",
        f"{_CONTROLLER}noise",
        f"{_CONTROLLER}noise:OpenDpNoise.choose",
        f"{_CONTROLLER}noise:_drawn",
    ),
    "exact sums": (
        f"{_STATISTICS}linear:_products",
        f"{_STATISTICS}linear:_totals",
        f"{_STATISTICS}marginals:_blocks_of",
        f"{_STATISTICS}numbers:places_of",
        f"{_STATISTICS}numbers:_noisy_level",
        f"{_STATISTICS}numbers:_position",
        f"{_STATISTICS}numbers:_split",
    ),
    "guard": (
        f"{_SERVICE}guard:decoder",
        f"{_SERVICE}guard:_check_parts",
        f"{_SERVICE}guard:Guard.intercept_service",
        f"{_SERVICE}guard:Guard._stream",
        f"{_SERVICE}guard:Guard._each",
        f"{_SERVICE}guard:Guard._ending",
        f"{_SERVICE}guard:Guard._admitted",
        f"{_SERVICE}access:Caller.check",
        f"{_SERVICE}access:caller_of",
        f"{_CONTROLLER}base.fair_use:Shares.taken",
    ),
    "sandbox": (
        f"{_SANDBOX}sandbox:exchange",
        f"{_SANDBOX}sandbox:Sandbox._watched",
        f"{_SANDBOX}zygote:begun",
        f"{_SANDBOX}zygote:_confine",
        f"{_SANDBOX}zygote:main",
        f"{_SANDBOX}sandbox:_forked",
        f"{_SANDBOX}limits:MemoryWatch._watch",
        f"{_SANDBOX}namespaces:Namespaces.kill",
        f"{_SANDBOX}environment:CompiledCopies._compile",
        f"{_CONTROLLER}jobs.process",
    ),
    "call filter": (f"{_SANDBOX}namespaces", f"{_SANDBOX}namespaces:_steps"),
    "fence": (
        f"{_STATE}database:Fence.lasts",
        f"{_STATE}database:_prepare_sqlite",
        f"{_STATE}sharing:Leadership.try_lead",
        f"{_STATE}sharing:Leadership._still_leads",
        f"{_STATE}sharing:Leadership.__init__",
    ),
    "differencing": (
        f"{_RULES}differencing:differences",
        f"{_RULES}differencing:nearly_natural",
        f"{_RULES}differencing:_in_a_chain",
        f"{_RULES}differencing:_has_small_support",
        f"{_RULES}differencing:chain_of_sums",
        f"{_RULES}differencing:_GroupSums._least",
        f"{_RULES}differencing:_GroupSums._light",
        f"{_RULES}inference:tells_small_counts",
        f"{_RULES}inference:_move_together",
        f"{_RULES}inference:_in_fractions",
        f"{_RULES}lattice:_is_small",
        f"{_RULES}lattice:LinearProgram._solution",
        f"{_RULES}lattice:LinearProgram._rounded",
    ),
    "output rules": (
        f"{_RULES}rule_checks:contributions",
        f"{_RULES}rule_checks:of_sums",
        f"{_RULES}rule_checks:of_quantiles",
        f"{_RULES}judgement:_of_influence",
        f"{_RULES}judgement:_fully_coded",
        f"{_RULES}released:released",
        f"{_RULES}released:_narrow",
        f"{_RULES}rounding:covariance",
        f"{_RULES}rule_checks:largest_leverage",
        f"{_RULES}influence:_correlated",
        f"{_RULES}influence:_Fit.of",
        f"{_RULES}influence:_Fit.placed",
        f"{_CONTROLLER}answers.answers:AnswerRun.__call__",
        f"{_CONTROLLER}answers.answers:AnswerRun._keep",
        f"{_CONTROLLER}answers.decisions:Decisions._settle",
        f"{_CONTROLLER}answers.decisions:Review.released",
    ),
    "page": (
        f"{_PAGE}security:Wall.__call__",
        f"{_PAGE}security:Wall._check",
        f"{_PAGE}security:Wall._check_origin",
        f"{_PAGE}oidc:Issuer._body",
        f"{_PAGE}oidc:Oidc.end",
    ),
    "workarounds": (
        f"{_RECORDS}databases:_run_by_duckdb",
        f"{_RECORDS}databases:_spark",
        f"{_RECORDS}databases:_duckdb",
        f"{_RECORDS}table_codes:text_of",
        f"{_RECORDS}table_codes:sum_of_hashes",
        f"{_CONTROLLER}records.encoding:EngineColumn.is_nan",
        f"{_FILES}statistics:_metadata",
        f"{_FILES}statistics:_batches",
        f"{_FILES}workbooks:_checked_parts",
        f"{_FILES}workbooks:_error_in",
        f"{_RULES}lattice:_Silent",
        f"{_PAGE}server:PatientProtocol",
        f"{_SERVICE}server",
        f"{_SERVICE}server:bind",
        "gencard.analysis.formulas.formulas:_Reader.__init__",
        "gencard.client.common.workbook:write_workbook",
        "gencard.client.common.workbook:_numbers",
        "gencard.client.common.formats",
        "gencard.client.common.psi_tables",
        "gencard.client.common.parquet:_column",
        "gencard.client.connection.tables:_reserve",
        "gencard.client.connection.connection:Channels.use_next",
    ),
}
"""Topic -> places, in the order in which a reader meets them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place that needs a comment.

    Args:
        topic: One of ``TOPICS``.
        name: As in ``TOPICS``.
        lines: Numbers of the comment lines inside it, and directly above it.
    """

    topic: str
    name: str
    lines: frozenset[int]

    @property
    def module(self) -> str:
        """Dotted name of the module."""
        return self.name.partition(":")[0]


def places() -> Iterator[Place]:
    """Yield every place of the topics with its comment lines.

    Raises:
        KeyError: A module, or a name in it, does not exist.
    """
    for topic, names in TOPICS.items():
        for name in names:
            module, _, inside = name.partition(":")
            yield Place(topic, name, comment_lines(SOURCES[module], inside))


def comment_lines(source: str, inside: str = "") -> frozenset[int]:
    """Return the numbers of the comment lines in a module, or in one of its functions or classes.

    >>> sorted(comment_lines("# above\\ndef f():\\n    return 1  # beside\\n# after\\n", "f"))
    [1, 3]

    Args:
        inside: Name of the definition, such as ``Class.name``; empty for the whole module.

    Raises:
        KeyError: There is no such definition.
    """
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {token.start[0] for token in tokens if explains(token)}
    if not inside:
        return frozenset(lines)
    first, last = _extent(source, inside)
    # A comment block that ends directly above a definition belongs to it.
    while first - 1 in lines:
        first -= 1
    return frozenset(line for line in lines if first <= line <= last)


def _extent(source: str, inside: str) -> tuple[int, int]:
    """Return the first and the last line of a definition, decorators included."""
    body: list[ast.stmt] = ast.parse(source).body
    first = last = 0
    for part in inside.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        definition = {one.name: one for one in body if isinstance(one, kinds)}[part]
        first = min([definition.lineno, *(one.lineno for one in definition.decorator_list)])
        last = definition.end_lineno or definition.lineno
        body = definition.body
    return first, last


def table() -> Table:
    """Return the topics with their modules, places and comment lines, each line counted once."""
    shown = Table("comments at the tricks", "modules", "places", "comment lines")
    every = list(places())
    for topic in TOPICS:
        own = [place for place in every if place.topic == topic]
        lines = {(place.module, line) for place in own for line in place.lines}
        modules = {place.module for place in own}
        shown.add_row(topic, f"{len(modules)}", f"{len(own)}", f"{len(lines)}")
    return shown
