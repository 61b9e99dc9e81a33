"""The plan of the house, read off the sources: who imports whom, and what nobody may use."""

import ast
import sys

import pytest

from docs.house.rooms import HOUSES, arrows, loops
from docs.house.rooms import room_of as place_of
from docs.house.sources import ROOT, ROOTS, SOURCES, imported_by, reached_from

BASE = {
    "core.derived_cells",
    "core.domain",
    "core.dataset",
    "core.coding",
    "core.card",
    "core.errors",
    "core.json_codecs",
    "core.policy",
    "core.program_outputs",
    "core.scale",
    "core.typed_json",
    "core.types",
    "core.values",
}
STATISTICS = BASE | {"core.statistics"}
BELOW_AUDIT = STATISTICS | {"core.statistics.measure", "core.generators", "core.blackbox"}
MEASURES = {"measures.privacy", "measures.utility", "measures.evaluation"}
CORE = BELOW_AUDIT | {
    "core.audit",
    "analysis.answers",
    "analysis.output_checks",
    "core.catalogue",
    *MEASURES,
}
RUN = {"run.levels", "run.r_language"}
RECORDS = {"controller.records.vault", "controller.records.databases"}
CONTROLLER = {"controller", *RECORDS}

MAY_IMPORT = {
    **dict.fromkeys(BASE, BASE),
    "core.catalogue": BASE,
    "core.statistics": STATISTICS,
    "core.statistics.measure": STATISTICS,
    "core.generators": STATISTICS | {"core.generators"},  # and so never the door
    "core.blackbox": BELOW_AUDIT,
    "measures.privacy": STATISTICS | {"measures.privacy", "measures.privacy.wide_tables"},
    "measures.privacy.wide_tables": STATISTICS
    | {"measures.privacy", "core.generators"},  # guesses fit a table
    "measures.utility": STATISTICS
    | {"measures.utility", "analysis.answers"},  # what psi tells of numbers
    "measures.evaluation": STATISTICS | MEASURES,
    "analysis.answers": STATISTICS | {"core.generators"},  # the bootstrap fits a model to psi
    "analysis.output_checks": BASE | {"core.statistics", "analysis.answers"},
    "core.audit": CORE - {"measures.evaluation", "analysis.answers", "analysis.output_checks"},
    "analysis.formulas": BASE | {"core.statistics", "analysis.answers"},
    "boxes": BELOW_AUDIT | {"boxes"},
    "v1": {"v1"},
    "files": BASE,
    "shell": BASE,
    "wire": CORE | {"v1", "wire"},
    "controller": CORE
    | {"boxes", "analysis.formulas", "wire", *RUN, "files", "shell"}
    | {"controller.service", "controller.jobs.cluster"}
    | CONTROLLER,
    "controller.service": CORE | {"v1", "wire", "files", "controller"},  # knows protobuf
    "controller.jobs.cluster": CORE
    | {"v1", "wire", "boxes", "files", "controller", "shell"},  # knows protobuf, too
    **dict.fromkeys(RECORDS, CORE | {"wire", "files", "controller"} | RECORDS),
    "run": BASE
    | {"core.generators", "run.levels", "wire"},  # shown in sandboxes, and so never the controller
    "run.levels": BASE,
    "run.r_language": BASE | {"run.levels", "wire"},
    "client": CORE
    | {
        "files",
        "analysis.formulas",
        "v1",
        "wire",
        "shell",
        "run",
        "run.levels",
        "run.r_language",
        "client",
    },
}
"""Rooms by the name after ``gencard.``; the longest that fits a module is its room."""

KEYS = {
    "controller.records.vault": {
        "gencard.controller.jobs.measurement",  # the job runner
        "gencard.controller.records.records",  # versions and checks, before anything is served
        "gencard.controller.drafting.profiles",  # a first look before there is a service
        "gencard.controller.drafting.undeclared",  # values, for the steward's shell
    },
    "controller.records.databases": {
        "gencard.controller.records.vault",  # files and tables by one door
        "gencard.controller.drafting.undeclared",
        "gencard.controller.records.rights",  # catalogs alone
        "gencard.controller.drafting.tables",  # a first look before there is a service
    },
}
"""Modules that may open records, by the room that does."""

CORE_LIBRARIES = {"numpy", "scipy"}
PROTOBUF = {"google", "grpc", "grpc_health"}
MAY_USE_PROTOBUF = (
    "v1",
    "wire.codec",
    "wire.error_table",
    "wire.tables",
    "controller.service",
    "controller.jobs.cluster",
    "controller.service.health",
    "client",
)
ALSO = {
    "analysis.output_checks": {"highspy"},  # of the controller alone
    "boxes": {"sklearn", "torch"},
    "measures.utility": {"sklearn"},
    "analysis.formulas": {"formulaic", "pandas"},
}

NOT_IN_CORE = {
    "time", "os", "pathlib", "tempfile", "shutil", "socket", "subprocess", "urllib", "http", "ssl",
    "sqlite3", "random", "secrets", "threading", "multiprocessing", "asyncio", "logging",
}  # fmt: skip
"""No clock, no environment, no disk, no network, no randomness but what is passed in."""

UNSAFE_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "shelve",
    "yaml",
}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
RANDOM_TYPES = {"Generator", "BitGenerator", "SeedSequence", "PCG64", "MT19937"}
CLOCK = {"now", "utcnow", "today", "environ", "getenv"}


def room_of(module: str) -> str | None:
    """The longest room that fits; None outside the house."""
    name = module.removeprefix("gencard.")
    fitting = [room for room in MAY_IMPORT if f"{name}.".startswith(f"{room}.")]
    return max(fitting, key=len, default=None) if module.startswith("gencard.") else None


def wrong_imports(module: str, source: str) -> set[str]:
    """Return the forbidden imports of a module."""
    room = room_of(module)
    assert room, f"{module} is in no room of the house"
    imported = imported_by(source)
    wrong = {
        name
        for name in imported
        if (target := room_of(name)) and target not in MAY_IMPORT[room] | {room}
    }
    wrong |= {name for name in imported if name.split(".")[0] in UNSAFE_MODULES}
    wrong |= {name for name in imported if name.startswith("numpy.random")}
    for opening, keys in KEYS.items():
        if module not in keys and room != opening:
            wrong |= {name for name in imported if room_of(name) == opening}
    if not module.removeprefix("gencard.").startswith(MAY_USE_PROTOBUF):
        wrong |= {name for name in imported if name.split(".")[0] in PROTOBUF}
    if room.startswith(("core.", "measures.", "analysis.", "boxes")):
        wrong |= {name for name in imported if not _is_for_core(name.split(".")[0], room)}
    return wrong


def _is_for_core(top: str, room: str) -> bool:
    if top in NOT_IN_CORE:
        return False
    return (
        top == "gencard"
        or top in sys.stdlib_module_names
        or top in CORE_LIBRARIES | ALSO.get(room, set())
    )


def _is_pure(module: str) -> bool:
    """Whether a module may only compute: no clock, no disk, no network."""
    return module.startswith(
        ("gencard.core.", "gencard.boxes.", "gencard.analysis.", "gencard.measures.")
    )


def wrong_uses(module: str, source: str) -> set[str]:
    """Calls and attributes that no room may use, or that the core may not."""
    wrong = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            banned = UNSAFE_CALLS | ({"open"} if _is_pure(module) else set())
            wrong |= {node.func.id} & banned
        elif isinstance(node, ast.Attribute):
            of_numpy = ast.unparse(node.value) in {"np.random", "numpy.random"}
            of_the_day = _is_pure(module) and node.attr in CLOCK
            if of_the_day or (of_numpy and node.attr not in RANDOM_TYPES):
                wrong.add(ast.unparse(node))
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            wrong |= set() if ast.unparse(node.value) == "False" else {"allow_pickle"}
    return wrong


def test_the_house_is_found():
    assert {room_of(module) for module in SOURCES} >= {
        "core.statistics",
        "core.generators",
        "wire",
        "client",
    }
    assert room_of("gencard.core.statistics.measure") == "core.statistics.measure"
    assert room_of("gencard.core.statistics.measurement") == "core.statistics"
    assert room_of("numpy") is None


@pytest.mark.parametrize("module", [name for name in SOURCES if ".controller.service." in name])
def test_no_servicer_reaches_the_vault_by_any_way(module):
    assert "gencard.controller.records.vault" not in reached_from(module)


def test_a_running_service_never_takes_the_first_look_or_lists_values():
    profile, values = (f"gencard.controller.drafting.{name}" for name in ("schema_draft", "undeclared"))
    tasks = {name for name in SOURCES if ".controller.jobs." in name}
    running = set().union(*map(reached_from, {"gencard.controller.wiring.serving", *tasks}))
    assert "gencard.controller.records.vault" in running
    assert not {profile, values} & running
    importers = {name for name in SOURCES if values in imported_by(SOURCES[name])}
    assert importers == {"gencard.controller.shell.setup"}
    assert profile in reached_from("gencard.controller.drafting.folder")


def test_every_module_stays_in_its_room():
    modules = {name: source for name, source in SOURCES.items() if name.count(".") > 1}
    wrong = {name: wrong_imports(name, of) | wrong_uses(name, of) for name, of in modules.items()}
    assert {name: places for name, places in wrong.items() if places} == {}


IMPORTS = {name: imported_by(source) & SOURCES.keys() - {name} for name, source in SOURCES.items()}


def test_rooms_import_lower_tiers_and_those_of_their_entry():
    wrong = [str(one) for one in arrows(IMPORTS) if one.goes_up or not one.is_allowed]
    assert wrong == []


def test_every_room_has_a_tier_and_no_entry_is_left_over():
    for package, rooms in HOUSES.items():
        own = {place[1] for name in SOURCES if (place := place_of(name)) and place[0] == package}
        assert own == rooms.keys()
        used = {(one.importer, one.target) for one in arrows(IMPORTS) if one.package == package}
        listed = {(name, target) for name, room in rooms.items() for target in room.imports}
        assert listed == used, "an entry that no import needs any more"
        assert all(rooms[target].tier < rooms[name].tier for name, target in listed)


def test_no_modules_import_each_other():
    assert loops(IMPORTS) == ()


def test_a_loop_is_found():
    chain = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("ab"), "d": frozenset("a")}
    assert loops(chain) == (("a", "b", "c"),)


@pytest.mark.parametrize(
    ("importer", "target", "goes_up"),
    [
        ("controller.records.vault", "controller.settings", True),
        ("controller.records.vault", "controller.people.keys", True),
        ("controller.service.guard", "controller.page.server", True),
        ("controller.shell.main", "controller.base.files", False),
        ("client.connection.credentials", "client.checking.checks", True),
    ],
)
def test_an_import_that_goes_up_is_found(importer, target, goes_up):
    modules = {f"gencard.{importer}": frozenset({f"gencard.{target}"}), f"gencard.{target}": frozenset()}
    assert [one.goes_up for one in arrows(modules)] == [goes_up]


def test_the_rooms_own_files_are_empty_of_wrong_uses_too():
    for module in (name for name in SOURCES if name.count(".") <= 1):
        assert wrong_uses(module, SOURCES[module]) == set()
        assert not {name.split(".")[0] for name in imported_by(SOURCES[module])} & UNSAFE_MODULES


def test_the_name_gencard_belongs_to_nobody():
    """PEP 420: a file there would hide the other three roots."""
    assert not [root for root in ROOTS if (ROOT / root / "gencard" / "__init__.py").exists()]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gencard.core.generators.x", "from gencard.core.statistics.measure import measure"),
        ("gencard.core.generators.x", "from gencard.core.statistics import measure"),
        ("gencard.core.generators.x", "import gencard.core.statistics.measure"),
        ("gencard.core.generators.x", "from gencard.core.blackbox import BlackBox"),
        ("gencard.core.generators.x", "from gencard.core import audit"),
        ("gencard.core.statistics.x", "from gencard.core.generators.family import ipf"),
        ("gencard.core.domain", "from gencard.core.statistics.psi import Psi"),
        ("gencard.core.blackbox.x", "from gencard.core.audit.plan import AuditPlan"),
        ("gencard.core.audit.x", "from gencard.wire.psi import psi_document"),
        ("gencard.core.audit.x", "from gencard.boxes.registry import BLACK_BOXES"),
        ("gencard.client.x", "from gencard.boxes.registry import BLACK_BOXES"),
        ("gencard.core.audit.x", "import time"),
        ("gencard.core.audit.x", "from os import environ"),
        ("gencard.core.audit.x", "import grpc"),
        ("gencard.core.audit.x", "from google.protobuf import message"),
        ("gencard.core.audit.x", "import pandas as pd"),
        ("gencard.core.audit.x", "def f():\n    import sqlalchemy.orm"),
        ("gencard.core.generators.x", "import sklearn.tree"),
        ("gencard.wire.x", "from gencard.client.card import Card"),
        ("gencard.wire.x", "from gencard.controller import policy"),
        ("gencard.controller.x", "from gencard.client.card import Card"),
        ("gencard.client.x", "from gencard.controller.records.vault import Vault"),
        ("gencard.controller.service.x", "from gencard.controller.records.vault import Vault"),
        ("gencard.controller.service.x", "from gencard.controller.records import vault"),
        ("gencard.controller.releases.x", "from gencard.v1 import synthesis_pb2"),
        ("gencard.controller.releases.x", "from google.protobuf.message import Message"),
        ("gencard.core.audit.x", "from numpy.random import default_rng"),
        ("gencard.client.x", "import pickle"),
        ("gencard.controller.x", "from yaml import safe_load"),
    ],
)
def test_a_wrong_import_is_found(module, source):
    assert wrong_imports(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gencard.client.x", "eval('1')"),
        ("gencard.client.x", "exec(text)"),
        ("gencard.client.x", "__import__('pickle')"),
        ("gencard.client.x", "np.load(file, allow_pickle=True)"),
        ("gencard.client.x", "np.load(file, allow_pickle=trusted)"),
        ("gencard.core.x", "np.random.seed(1)"),
        ("gencard.core.x", "rng = np.random.default_rng()"),
        ("gencard.core.x", "numpy.random.choice(3)"),
        ("gencard.core.x", "open('records.csv')"),
        ("gencard.core.x", "datetime.now()"),
    ],
)
def test_a_wrong_use_is_found(module, source):
    assert wrong_uses(module, source)


def test_what_is_allowed_is_not_found():
    source = (
        "import numpy as np\nimport gencard.core.statistics.psi\nnp.random.Generator(np.random.PCG64(1))"
    )
    assert wrong_imports("gencard.core.generators.x", source) == set()
    assert wrong_uses("gencard.core.generators.x", source) == set()
    assert wrong_uses("gencard.core.generators.x", "np.load(file, allow_pickle=False)") == set()
    key = "from gencard.controller.records.vault import Vault"
    assert wrong_imports("gencard.controller.records.records", key) == set()
    with pytest.raises(ValueError, match="relative"):
        imported_by("from . import measure")
