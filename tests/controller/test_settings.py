"""Settings: one file, the environment above it, and refusals that name fields but no values."""

import tomllib
from dataclasses import dataclass, fields
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gencard.controller.base.files import TableOf, toml_text
from gencard.controller.records.file_format import FileFormat
from gencard.controller.sandbox.limits import SandboxLimits, SandboxSettings
from gencard.controller.settings import Settings
from gencard.controller.settings_tables import MOST_DAYS, POLICY
from gencard.controller.state.ledger import Caps
from gencard.core.card.budget import Neighbouring, Price
from gencard.core.card.privacy import Mechanism, Transform, gaussian
from gencard.core.card.sums import MomentKind
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.policy import AnalysesPolicy, AnswerRelease, MomentPolicy, Policy, TwoStewards
from gencard.core.statistics.formula import Analysis
from gencard.measures.evaluation.evaluation import Declared
from gencard.measures.privacy.distances import Missing
from gencard.measures.utility.fidelity import GapWords

SMALLEST = """
[identity]
trust_domain = "example"
uri = "spiffe://example/service/controller/controller"
"""
DATASET = """
[[datasets]]
name = "survey"
data = "records/survey.csv"
schema = "schema.toml"
[datasets.policy]
largest_order = 2
largest_marginal_cells = 1000
most_marginals = 10
most_rows = 100
most_per_card = { statistics = 7, epsilon = "0.1" }
forbidden = [["a", "b"]]
[datasets.caps]
dataset = { statistics = 100 }
project = { statistics = 50 }
analyst = { statistics = 50 }
"""


def load(folder: Path, text: str) -> Settings:
    path = folder / "controller.toml"
    path.write_text(text)
    return Settings.load(path)


def refused(folder: Path, text: str) -> GencardError:
    with pytest.raises(GencardError) as caught:
        load(folder, text)
    assert "CANARY" not in str(caught.value)
    assert caught.value.__context__ is None
    return caught.value


def test_paths_start_at_the_folder_of_the_file(tmp_path):
    settings = load(tmp_path, SMALLEST + DATASET + '[state]\nfolder = "/elsewhere"\n')
    assert settings.server.key == tmp_path / "server/key.pem"
    assert settings.datasets[0].data == tmp_path / "records/survey.csv"
    assert settings.state.releases == Path("/elsewhere/releases")
    assert settings.state.database_url == "sqlite:////elsewhere/state.sqlite"


def test_a_database_elsewhere_is_not_shown(tmp_path):
    settings = load(tmp_path, SMALLEST + '[state]\nurl = "postgresql://me:CANARY@db/gencard"\n')
    assert settings.state.database_url == "postgresql://me:CANARY@db/gencard"
    assert "CANARY" not in repr(settings)


def test_the_environment_stands_above_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("GENCARD_SERVER__ADDRESS", "localhost:1")
    monkeypatch.setenv("GENCARD_LIMITS__WORKERS", "5")
    settings = load(tmp_path, SMALLEST + '[server]\naddress = "localhost:2"\nper_identity = 3\n')
    assert (settings.server.address, settings.server.per_identity) == ("localhost:1", 3)
    assert settings.limits.workers == 5


def test_policy_and_caps_are_plain_values(tmp_path):
    entry = load(tmp_path, SMALLEST + DATASET).datasets[0]
    policy = entry.policy
    assert policy.most_per_card.statistics == 7
    assert str(policy.most_per_card.epsilon) == "0.1"
    assert policy.forbidden == (("a", "b"),)
    assert policy.mechanisms == (Mechanism.EXACT,)
    assert not policy.automatic
    assert entry.caps.dataset == Price(statistics=100)


WHOLE = (
    SMALLEST
    + """
[cell]
memory_mib = 1000
[[datasets]]
name = "survey"
data = "records/survey.csv"
schema = "schema.toml"
format = { delimiter = ";", decimal = ",", dates = ["%d.%m.%Y"] }
[datasets.measures]
keys = ["a"]
attacks = 20
missing = "pairwise"
gap = { attribute = "a", first = "x", second = "y", within = "b" }
[datasets.policy]
largest_order = 2
largest_marginal_cells = 1000
most_marginals = 10
most_rows = 100
most_per_card = { statistics = 7, epsilon = "0.10" }
mechanisms = ["exact", "gaussian"]
noise = { mechanism = "gaussian", neighbouring = "add-remove", rho = "0.10", delta = "1e-6" }
transform = { threshold = 10 }
moments = { kinds = ["mean"], highest = 3 }
[datasets.policy.analyses]
kinds = ["logistic", "linear"]
checked_runs = 3
release = "steward"
influence = "off"
[datasets.caps]
dataset = { statistics = 100 }
project = { statistics = 50 }
analyst = { statistics = 50 }
projects = { p = { statistics = 1 } }
[[black_boxes]]
name = "x"
kind = "program"
folder = "x"
command = ["python", "./x"]
limits = { fit_mib = 4 }
claim = { by = "its author", epsilon = "0.50", neighbouring = "add-remove" }
"""
)


def test_tables_are_dataclasses_of_the_rooms_that_use_them(tmp_path):
    settings = load(tmp_path, WHOLE)
    (entry,), (box,) = settings.datasets, settings.black_boxes
    assert settings.cell == SandboxSettings(memory_mib=1000)
    assert entry.format.value == FileFormat(delimiter=";", decimal=",", dates=("%d.%m.%Y",))
    assert entry.measures == Declared(
        ("a",), attacks=20, missing=Missing.PAIRWISE, gap=GapWords("a", "x", "y", "b")
    )
    assert entry.policy.noise == gaussian("0.1", neighbouring="add-remove", delta="1e-6")
    assert entry.policy.transform == Transform(threshold=10)
    assert entry.policy.moments == MomentPolicy((MomentKind.MEAN,), 3)
    assert entry.policy.analyses == AnalysesPolicy(
        ("logistic", "linear"), 3, release=AnswerRelease.STEWARD, influence=None
    )
    assert entry.caps == Caps(*[Price(100), Price(50), Price(50)], projects={"p": Price(1)})
    assert box.limits_in(settings.cell.limits) == SandboxLimits(memory_mib=1000, fit_mib=4)


@dataclass(frozen=True)
class Sums:
    of: str
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offer:
    """A dataclass with tables in it."""

    sums: tuple[Sums, ...] = ()
    usual: Sums | None = None
    rows: int = 5


def test_a_dataclass_needs_no_word_in_the_settings():
    form = TypeAdapter(Annotated[Offer, TableOf()])
    offer = Offer((Sums("income"), Sums("hours", ("sex",))), Sums("income"))
    assert form.validate_python(form.dump_python(offer)) == offer
    assert form.validate_python({}) == Offer()
    for wrong in ({"sums": [{"of": "x", "CANARY": 1}]}, {"usual": {}}, {"rows": "x"}):
        with pytest.raises(ValidationError):
            form.validate_python(wrong)


def test_a_format_is_checked_where_a_dataset_is_opened(tmp_path):
    format_table = load(tmp_path, WHOLE.replace('decimal = ","', 'decimal = "x"')).datasets[0].format
    with pytest.raises(InvalidInputError, match=r"format\.decimal"):
        _ = format_table.value


@given(
    st.builds(
        Policy,
        largest_order=st.integers(1, 9),
        largest_marginal_cells=st.integers(1, 999),
        most_marginals=st.integers(1, 99),
        most_rows=st.integers(1, 10**9),
        generators=st.just(("ipf",)),
        most_per_card=st.builds(Price, st.integers(0, 99), st.decimals(0, 9, places=3)),
        forbidden=st.lists(st.tuples(st.text(), st.text())).map(tuple),
        noise=st.none()
        | st.builds(gaussian, st.integers(1, 9), neighbouring=st.sampled_from(Neighbouring)),
        transform=st.builds(Transform, threshold=st.integers(0, 99), zeros=st.booleans()),
        moments=st.builds(MomentPolicy, st.lists(st.sampled_from(MomentKind)).map(tuple)),
        analyses=st.builds(
            AnalysesPolicy,
            kinds=st.sets(st.sampled_from(Analysis)).map(tuple),
            checked_runs=st.just(2),
            stored=st.booleans(),
            release=st.sampled_from(AnswerRelease),
            influence=st.none() | st.floats(0.5, 100),
        ),
        valid_days=st.integers(1, MOST_DAYS),
        two_stewards=st.lists(st.sampled_from(TwoStewards)).map(tuple),
    )
)
def test_every_policy_has_its_table(policy):
    """A table states all fields of a policy but the one that follows from the schema."""
    form = TypeAdapter(Annotated[Policy, POLICY])
    table = form.dump_python(policy)
    assert table.keys() == {field.name for field in fields(Policy)} - {"most_records"}
    assert form.validate_python(tomllib.loads(f"x = {toml_text(plain(table))}")["x"]) == policy


def plain(value):
    """A value as TOML has it: numbers with decimals as texts, nothing for None."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, str | int | float) else str(value)


@pytest.mark.parametrize("text", [WHOLE, SMALLEST + DATASET])
def test_values_are_dumped_as_the_tables_that_state_them(tmp_path, text):
    """The log of rules shows what the file states, and reading it again gives the same settings."""
    settings = load(tmp_path, text)
    dumped = settings.model_dump(exclude_none=True)
    for entry in dumped["datasets"]:
        entry["schema"] = entry.pop("schema_file")
    assert Settings.of_table(without_none(dumped), tmp_path / "controller.toml") == settings


def without_none(value):
    if isinstance(value, dict):
        return {name: without_none(one) for name, one in value.items() if one is not None}
    return [without_none(one) for one in value] if isinstance(value, list | tuple) else value


def tables(value, path=()):
    """Paths of all tables in a document."""
    if isinstance(value, dict):
        yield path
    for name, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, dict | list):
            yield from tables(one, (*path, name))


DOCUMENT = tomllib.loads(WHOLE)
OPEN = {("datasets", 0, "caps", "projects")}
"""Tables of names that stewards choose."""


def changed(path, change):
    document = tomllib.loads(WHOLE)
    change(reduce(getitem, path, document))
    with pytest.raises(InvalidInputError) as caught:
        Settings.of_table(document, Path("/nowhere/controller.toml"))
    return caught.value.fields


@pytest.mark.parametrize("path", [path for path in tables(DOCUMENT) if path not in OPEN], ids=str)
def test_no_table_may_have_an_unknown_name(path):
    wrong = changed(path, lambda table: table.update(CANARY=1))
    assert wrong["field"].endswith(".".join(filter(None, (*map(str, path[2:]), "CANARY"))))
    assert wrong["problem"] == "is not a known name"


@pytest.mark.parametrize("name", ["most_records", "public"])
def test_a_file_cannot_state_what_follows_from_the_schema(name):
    wrong = changed(("datasets", 0, "policy"), lambda table: table.update({name: 1}))
    assert wrong["problem"].startswith("is not a known name")


@pytest.mark.parametrize("path", [path for path in tables(DOCUMENT) if path], ids=str)
def test_a_table_is_a_table(path):
    document = tomllib.loads(WHOLE)
    reduce(getitem, path[:-1], document)[path[-1]] = 5
    with pytest.raises(InvalidInputError) as caught:
        Settings.of_table(document, Path("/nowhere/controller.toml"))
    assert ".".join(map(str, path[2:])) in caught.value.fields["field"]
    assert caught.value.fields["problem"].startswith("is not valid (")


def test_a_required_name_is_required():
    wrong = changed(("datasets", 0, "measures", "gap"), lambda table: table.pop("within"))
    assert wrong == {
        "field": "controller.toml: datasets.0.measures.gap.within",
        "problem": "is required",
    }


PROGRAM = (
    SMALLEST
    + """
[[black_boxes]]
name = "x"
kind = "program"
folder = "x"
command = ["python", "./x"]
claim = { by = "its author", epsilon = "0.5", neighbouring = "add-remove" }
"""
)


def test_a_program_may_have_a_claim_that_somebody_declares(tmp_path):
    claim = load(tmp_path, PROGRAM).black_boxes[0].claim
    assert str(claim) == "epsilon 0.5 (add-remove). Declared by its author, and not proved."


def test_black_boxes_are_told_apart_by_kind(tmp_path):
    boxes = """
    [[black_boxes]]
    name = "one"
    kind = "adds_marginal"
    clique = ["a", "b", "c"]
    [[black_boxes]]
    name = "two"
    kind = "copies_rows"
    share = 0.1
    """
    one, two = load(tmp_path, SMALLEST + boxes).black_boxes
    assert one.clique == ("a", "b", "c")
    assert (two.share, two.generator) == (0.1, "ipf")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "identity"),
        ("= CANARY", "controller.toml"),
        (SMALLEST + "[server]\nport = 'CANARY'\n", "server.port"),
        (SMALLEST + "[server]\nper_identity = 'CANARY'\n", "server.per_identity"),
        (SMALLEST + "[limits]\nworkers = 0\n", "limits.workers"),
        (SMALLEST + "[limits]\nmemory_mib = 64\n", "limits.memory_mib"),
        (SMALLEST.replace("example", "CANARY"), "identity.trust_domain"),
        (SMALLEST + DATASET.replace('"survey"', '"CANARY"'), "datasets.0.name"),
        (SMALLEST + DATASET.replace("{ statistics = 100 }", "{ statistics = -1 }"), "statistics"),
        (SMALLEST + DATASET.replace('"0.1"', '"CANARY"'), "epsilon"),
        (SMALLEST + DATASET.replace('"0.1"', '"NaN"'), "epsilon"),
        (SMALLEST + DATASET + DATASET, "datasets"),
        (SMALLEST + '[[black_boxes]]\nname = "x"\nkind = "CANARY"\n', "black_boxes"),
        (SMALLEST + '[[black_boxes]]\nname = "x"\nkind = "honest"\ngenerator = "canary"\n', "generator"),
        (SMALLEST + '[[black_boxes]]\nname = "x"\nkind = "copies_rows"\nshare = nan\n', "black_boxes"),
        (PROGRAM.replace('"0.5"', '"CANARY"'), "claim.epsilon"),
        (PROGRAM.replace('"0.5"', '"0.5", delta = "1"'), "claim.delta"),
        (PROGRAM.replace("add-remove", "CANARY"), "black_boxes.0.program.claim.neighbouring"),
        (PROGRAM.replace("its author", " "), "black_boxes.0.program.claim.by"),
    ],
)
def test_a_refusal_names_the_field_and_no_value(tmp_path, text, field):
    error = refused(tmp_path, text)
    assert isinstance(error, InvalidInputError)
    assert field in error.fields["field"]


def test_a_refusal_says_where_and_what(tmp_path):
    """File, line and what is expected: enough to mend it without a manual."""
    assert "at line 5" in str(refused(tmp_path, SMALLEST + "[server\n"))
    error = refused(tmp_path, SMALLEST + DATASET.replace("largest_order = 2", 'largest_order = "two"'))
    assert error.message == "controller.toml: datasets.0.policy.largest_order: is not a whole number."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[limits]\nworkers = 0\n", "limits.workers: must be above 0."),
        (
            '[[black_boxes]]\nname = "ipf"\nkind = "honest"\n',
            "black_boxes: an entry has the name of a gen",
        ),
        ("[limits]\nmemory_mib = 9\n", "limits.memory_mib: must be 1024 or more."),
        ('[lending]\nblack_boxes = ["canary"]\n', "lending.black_boxes: must name black boxes"),
        ('[cell]\nisolation = "CANARY"\n', "cell.isolation: is not 'namespaces' or 'processes'."),
        ('[[black_boxes]]\nname = "x"\nkind = "CANARY"\n', "kind, not one of 'honest', 'adds_marginal'"),
        ('[[black_boxes]]\nname = "x"\nkind = "honest"\ngenerator = "canary"\n', "docs/methods.md"),
        (DATASET.replace("most_rows", 'measures = ["CANARY"]\nmost_rows'), "docs/methods.md"),
        (DATASET.replace("most_rows", 'analyses = { kinds = ["CANARY"] }\nmost_rows'), "kinds"),
        (DATASET.replace("most_rows", "analyses = { threshold = 9 }\nmost_rows"), "threshold"),
        (DATASET.replace("most_rows", "analyses = { rounding = 1 }\nmost_rows"), "rounding"),
        (DATASET.replace("most_rows", "analyses = { checked_runs = 2_000 }\nmost_rows"), "analyses"),
        (DATASET.replace("most_rows", "valid_days = 99999999\nmost_rows"), "must be 36500 or less"),
    ],
)
def test_a_refusal_says_what_is_allowed(tmp_path, text, problem):
    assert problem in str(refused(tmp_path, SMALLEST + text))


@pytest.mark.parametrize("line", ["stewards = 2", 'two_stewards = ["exact-counts"]'])
def test_where_two_stewards_decide_nothing_is_offered_at_once(tmp_path, line):
    dataset = SMALLEST + DATASET.replace("[datasets.caps]", f"{line}\n[datasets.caps]")
    assert load(tmp_path, dataset).datasets[0].policy.decided_by_two
    automatic = dataset.replace(line, f"{line}\nautomatic = true")
    assert "if two stewards decide" in str(refused(tmp_path, automatic))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be read"):
        Settings.load(tmp_path / "controller.toml")


@pytest.mark.parametrize("address", ["localhost:70000", "localhost", "localhost:", "a:-1", ":7443"])
def test_an_address_is_a_host_and_a_port(tmp_path, address):
    error = refused(tmp_path, f'{SMALLEST}[server]\naddress = "{address}"\n')
    assert error.fields["field"] == "server.address"


@pytest.mark.parametrize("address", ["0.0.0.0:7443", "[::]:7443", "example.org:7443", "10.0.0.1:7443"])
def test_s01_plaintext_away_from_loopback_aborts_the_start(tmp_path, address):
    error = refused(tmp_path, f'{SMALLEST}[server]\naddress = "{address}"\ninsecure_dev = true\n')
    assert error.fields["field"] == "server.insecure_dev"


@pytest.mark.parametrize("address", ["localhost:7443", "127.0.0.1:0", "127.9.9.9:1", "[::1]:7443"])
def test_s01_plaintext_on_loopback_is_for_developers(tmp_path, address):
    text = f'{SMALLEST}[server]\naddress = "{address}"\ninsecure_dev = true\n'
    assert load(tmp_path, text).server.insecure_dev


def test_s01_the_environment_cannot_slip_plaintext_past_the_check(tmp_path, monkeypatch):
    monkeypatch.setenv("GENCARD_SERVER__ADDRESS", "0.0.0.0:7443")
    assert refused(tmp_path, SMALLEST + "[server]\ninsecure_dev = true\n").reason == "INVALID_INPUT"


@given(
    st.recursive(
        st.text(st.characters(exclude_categories=["Cs"]))
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda values: st.lists(values, max_size=4),
        max_leaves=8,
    )
)
def test_what_is_written_as_toml_reads_back_the_same(value):
    assert tomllib.loads(f"value = {toml_text(value)}")["value"] == value
