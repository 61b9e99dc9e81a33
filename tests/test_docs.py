"""The pages say what the code does: no page has drifted, examples are true, links lead somewhere."""

import ast
import doctest
import importlib
import json
import re
import shlex
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import pytest
import typer
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import TypeAdapter
from typer.core import TyperGroup
from typer.main import get_command

from docs import errors, examples, reference
from gencard.client.shell.main import app as analyst_shell
from gencard.controller.audit_runs import _payload
from gencard.controller.base.files import Section
from gencard.controller.settings_tables import CAPS, POLICY
from gencard.controller.shell.main import app as steward_shell
from gencard.controller.state.ledger import Caps
from gencard.controller.state.log import signed_checkpoint
from gencard.core.audit.plan import AuditPlan
from gencard.core.card.privacy import NOISES, USUAL_CHECKS
from gencard.core.policy import Policy, Rule
from gencard.measures.evaluation.registry import EVALUATIONS
from gencard.wire.canonical import json_bytes, time_of
from gencard.wire.documents import card_of_document, receipt_of_document, receipt_statement
from gencard.wire.dsse import CHECKPOINT, predicate_of, sign, verify
from gencard.wire.psi import coding_document, coding_of_document, psi_document
from tests.printed import lines_of_text, regressions

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 17_000
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_pages_name_every_mechanism_and_every_evaluation_that_reads_records():
    mechanisms = {noise.mechanism for noise in NOISES}
    names = {name for name, measure in EVALUATIONS.items() if measure.reads_records}
    for page, expected in (("methods", mechanisms | names), ("card-format", mechanisms)):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        assert [name for name in sorted(expected) if f"`{name}`" not in text] == [], page


def test_the_error_page_has_not_drifted():
    assert errors.PAGE.read_text(encoding="utf-8") == errors.page(), "run `make docs`"


def test_the_reference_has_not_drifted():
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run `make docs`"


def test_every_setting_needs_a_docstring():
    class Bare(Section):
        """A section."""

        told: int = 1
        """A number."""
        untold: int = 2

    class Told(Bare):
        """The same, with what was missing."""

        untold: int = 3
        """Another ``number``."""

    with pytest.raises(LookupError, match=r"Bare\.untold has no docstring"):
        reference.meanings(Bare)
    assert reference.meanings(Told) == {"told": "A number.", "untold": "Another `number`."}


def test_every_error_is_on_the_page():
    page = errors.page()
    assert all(f"| `{kind.reason}` | {status.name} |" in page for kind, status in errors.STATUS.items())


CODE = re.compile(r"[A-Z][A-Z0-9]+(_[A-Z0-9]+)*")
NO_REASONS = re.compile(
    r"GENCARD(_C.*)?|GRPC_VERBOSITY|LC_ALL|LD_LIBRARY_PATH|MALLOC_ARENA_MAX|.*_NUM_THREADS|TMPDIR"
    r"|PYTHON.*|ARROW_.*|SPARK_.*|PATH_INFO|REQUEST_METHOD|CAP_.*|[ERP]S\d+"
    r"|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DECIMAL|DOUBLE|FLOAT|VARCHAR|TIMESTAMP(TZ)?(_NS)?"
    r"|AUTOCOMMIT|BEGIN|SELECT|CHECK|UNIQUE|FALSE|ALERT|READY|RECORD|DESCRIPTION|SPECKS"
    r"|ANSWER|DIGEST|FOLDER|ENDED|CANCELLED|UNAVAILABLE|UNIMPLEMENTED|SDATE10|TIME5"
)
"""Upper-case texts of the sources that are no reasons: environment, SQL, libraries and options."""


def codes_in_sources():
    """Each upper-case text of the product's sources that looks like a reason, with its file."""
    for top in ("controller_service", "shared", "analyst_client"):
        for file in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and len(text) > 4 and CODE.fullmatch(text):
                    yield text, file


def test_every_reason_code_of_the_sources_is_on_the_page():
    page = errors.page()
    listed = {code: file for code, file in codes_in_sources() if not NO_REASONS.fullmatch(code)}
    assert len(listed) > 100
    missing = {code: file for code, file in listed.items() if f"| `{code}` |" not in page}
    assert not missing, "add the code to core.errors.CHANGE_REASONS"


def test_every_rule_of_answers_is_on_the_page_with_advice():
    assert set(errors.RULES) == set(Rule)
    assert all(f"| `{rule}` | {advice} |" in errors.page() for rule, advice in errors.RULES.items())


class TestCardFormat:
    page = examples.PAGE.read_text(encoding="utf-8")

    def test_the_examples_have_not_drifted(self):
        assert examples.filled(self.page) == self.page, "run `make docs`"

    def test_every_example_is_shown(self):
        assert {name for _, name, _ in examples.BLOCK.findall(self.page)} == set(examples.examples())

    def test_every_field_is_explained(self):
        prose = examples.BLOCK.sub("", self.page)
        explained = {part for code in re.findall(r"`([^`]+)`", prose) for part in code.split(".")}
        for name, example in examples.examples().items():
            missing = names_in(example.get("predicate", example)) - explained - {"sha256"}
            assert not missing, (name, missing)

    def test_examples_are_what_the_wire_reads(self):
        made = examples.examples()
        assert card_of_document(made["card"]["predicate"]) == examples.CARD
        assert receipt_of_document(made["receipt"]["predicate"]) == examples.RECEIPT
        assert coding_of_document(made["schema"]) == examples.CODING

    def test_the_verdict_is_what_the_controller_signs(self):
        row = SimpleNamespace(black_box="ipf", author="gencard", box_digest="", name="audits/1")
        card = SimpleNamespace(offer=SimpleNamespace(digest=""))
        plan = AuditPlan(cliques=examples.TERMS.marginals, rows=10, seed=1)
        report = SimpleNamespace(plan=plan, earlier=(), workers=None)
        outcome = ("no-evidence", "")
        signed = json.loads(_payload(row, card, report, b"", outcome, time_of(examples.TIME)))
        assert set(examples.examples()["verdict"]["predicate"]) == set(signed["predicate"])

    def test_the_checkpoint_is_what_the_log_signs(self):
        envelope = signed_checkpoint(examples.LOG_KEY, bytes(32), 5, time_of(examples.TIME))
        facts = predicate_of(verify(envelope, [examples.LOG_KEY.public_key()]), CHECKPOINT)
        assert set(examples.examples()["checkpoint"]["predicate"]) == set(facts)

    def test_the_session_by_hand(self, tmp_path, monkeypatch):
        card = examples.card_statement(examples.CARD)
        documents = {
            "card.json": sign(card, [examples.CONTROLLER_KEY, examples.ANALYST_KEY]),
            "receipt.json": sign(receipt_statement(examples.RECEIPT), [examples.CONTROLLER_KEY]),
            "psi.json": psi_document(examples.PSI),
            "schema.json": json_bytes(coding_document(examples.CODING)),
            "controller_card_key.pub": pem(examples.CONTROLLER_KEY),
            "analyst.pub": pem(examples.ANALYST_KEY),
        }
        for name, content in documents.items():
            (tmp_path / name).write_bytes(content)
        monkeypatch.chdir(tmp_path)
        found = doctest.testfile(str(examples.PAGE), module_relative=False)
        assert found.attempted > 10
        assert found.failed == 0


def names_in(value):
    """Names of all fields in a document; those of open tables are data."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(names_in(part) for name, part in value.items() if name != "versions"))


def pem(key):
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_the_policy_on_the_page_for_controllers_is_one():
    page = (ROOT / "docs" / "controllers.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(\[datasets\.policy\].*?)```", page, re.DOTALL)
    table = tomllib.loads(block)["datasets"]
    others = {"largest_order": 2, "largest_marginal_cells": 99, "most_marginals": 9, "most_rows": 9}
    policy = TypeAdapter(Annotated[Policy, POLICY]).validate_python(others | table["policy"])
    assert policy.transform == USUAL_CHECKS
    caps = TypeAdapter(Annotated[Caps, CAPS]).validate_python(table["caps"])
    assert all(policy.most_per_card.fits(cap) for cap in (caps.dataset, caps.project, caps.analyst))


UsageError = typer.BadParameter.__mro__[1]
SHELLS = {"gencard": analyst_shell, "gencard-controller": steward_shell}


def commands_in(page):
    """Every command of ours that a page shows in a block for shells."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            words = shlex.split(line, comments=True)
            if words[0] in SHELLS:
                yield words


SHOWN = [words for page in PAGES for words in commands_in(page)]


@pytest.mark.parametrize("words", SHOWN, ids=lambda words: " ".join(words[:3]))
def test_commands_are_spelt_as_the_shells_want_them(words):
    command = get_command(SHELLS[words[0]])
    rest = words[1:]
    while isinstance(command, TyperGroup) and rest and rest[0] in command.commands:
        _, command, rest = command.resolve_command(None, rest)
    assert not isinstance(command, TyperGroup) or not rest or rest[0].startswith("-")
    command.make_context(words[0], rest)  # raises UsageError


def test_a_misspelt_command_would_be_found():
    for words in (["gencard", "datasets", "--nonsense"], ["gencard", "nonsense"], ["gencard", "accept"]):
        with pytest.raises((AssertionError, UsageError)):
            test_commands_are_spelt_as_the_shells_want_them(words)


def test_pages_written_by_hand_stay_short():
    others = {  # test_house has a limit for the architecture
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "DECISIONS.md",
        "architecture.md",
        "card-format.md",
        "errors.md",
        "reference.md",
        "wrong-actions.md",
        "wrong-uses.md",
    }
    written = [page for page in PAGES if page.name not in others]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in written) <= MOST_WORDS


def test_coefficients_are_shown_where_a_test_computes_them():
    """``test_tutorial`` compares those of the tutorial; another page needs such a test first."""
    shown = {page.name for page in PAGES if regressions(lines_of_text(page.read_text(encoding="utf-8")))}
    assert shown == {"tutorial.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    missing = [
        target
        for target in targets
        if not target.startswith(("http://", "https://")) and not (page.parent / target).exists()
    ]
    assert not missing


def anchors_of(page):
    """Anchors of a page's headings, as its host makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_heading(page):
    links = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    inside = [(target, anchor) for target, anchor in links if not target.startswith("http")]
    missing = [
        (target, anchor)
        for target, anchor in inside
        if anchor not in anchors_of(page.parent / target if target else page)
    ]
    assert not missing


IMPORTED = sorted(
    {
        (module, name.strip())
        for page in PAGES
        for module, names in re.findall(
            r"^from (gencard[\w.]*) import (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        for name in names.split(",")
    }
)


def test_what_pages_import_exists():
    missing = [pair for pair in IMPORTED if not hasattr(importlib.import_module(pair[0]), pair[1])]
    assert not missing
