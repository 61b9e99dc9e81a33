"""Cards of tier private: one noisy fit, priced by epsilon or rho, and nothing else of the records."""

import html
import secrets
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from google.longrunning import operations_pb2

from gencard.boxes.mst import Mst
from gencard.client import Analyst
from gencard.client.card import Card
from gencard.client.checking.bundle import Bundle, Keys, Outcome, verify
from gencard.client.connection.credentials import Credentials
from gencard.client.connection.tables import RemoteBox
from gencard.controller import operations as run_module
from gencard.controller.jobs import black_boxes
from gencard.controller.records.vault import Vault
from gencard.controller.wiring import serving as wiring
from gencard.core.audit.uniques import made_up
from gencard.core.card.budget import Neighbouring, Price, SpendState
from gencard.core.card.card import CardState
from gencard.core.card.privacy import Mechanism, gaussian
from gencard.core.card.terms import Tier
from gencard.core.errors import (
    BlackBoxError,
    BoxRunFailedError,
    BudgetExceededError,
    GencardError,
    InvalidInputError,
    NoPsiError,
    NotReplayableError,
    RecordsProtectedError,
)
from gencard.core.generators.contract import rng_of
from gencard.core.statistics import measure as door
from gencard.v1 import audit_pb2, catalog_pb2, ledger_pb2, measures_pb2, negotiation_pb2, synthesis_pb2
from tests.system.consistency import assert_consistent, lines_of
from tests.system.house import House, build, survey
from tests.system.raw_calls import Ending, call, configure
from tests.system.sandboxes import needs_sandbox
from tests.system.thread_jobs import run_jobs_in_threads

pytestmark = needs_sandbox

PAIRS = [("sex", "health"), ("health", "work")]
ROWS = 300
BOXES = """
[[black_boxes]]
name = "mst"
kind = "built_in"
box = "mst"
parameters = { epsilon = "1", delta = "0.000001", neighbouring = "replace-one" }

[[black_boxes]]
name = "bayes"
kind = "built_in"
box = "privbayes"
parameters = { epsilon = "1" }

[[black_boxes]]
name = "trees"
kind = "built_in"
box = "synthpop"
"""
NOISE = '{ mechanism = "gaussian", neighbouring = "replace-one", rho = "0.01" }'
CAPS = "{ epsilon = 2, rho = 0.2 }"


def noise_alone(folder: Path, data: pd.DataFrame | None = None) -> House:
    """A house whose policy offers noise alone, and two private boxes; not started."""
    house = build(folder, survey(600) if data is None else data)
    caps = dict.fromkeys(("most_per_card", "dataset", "project", "analyst"), CAPS)
    offered = '["ipf", "mst", "bayes"]'
    lent = {"black_boxes": '["mst"]'}
    house.edit(caps | lent | {"mechanisms": '["gaussian"]', "generators": offered})
    configure(house, "datasets.policy", noise=NOISE)
    with house.settings_file.open("a") as settings:
        settings.write(BOXES)
    return house


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    started = noise_alone(tmp_path_factory.mktemp("private")).start()
    yield started
    started.stop()


@pytest.fixture
def ana(house: House) -> Iterator[Analyst]:
    with house.analyst() as analyst:
        yield analyst


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that ran."""
    names, real = [], run_module.Run.job

    def job(self, task, description):
        names.append(task.name)
        return real(self, task, description)

    monkeypatch.setattr(run_module.Run, "job", job)
    return names


def agreed(analyst: Analyst, generator: str = "mst") -> Card:
    return analyst.propose("survey", PAIRS, purpose="a test", generator=generator, rows=ROWS).accept()


class TestTheCard:
    @pytest.mark.parametrize("name", ["mst", "bayes"])
    def test_s31_its_price_is_the_noise_of_one_fit(self, house, ana, tasks, name):
        card = agreed(ana, name)
        said = card.signed
        assert (said.tier, said.reviewed_by) == (Tier.PRIVATE, "")
        privacy = said.terms.privacy
        assert (privacy.mechanism, privacy.neighbouring) == (
            Mechanism.GENERATOR,
            Neighbouring.REPLACE_ONE,
        )
        expected = {"mst": Price(rho=Decimal("0.02435597")), "bayes": Price(epsilon=Decimal(1))}
        assert said.price == expected[name]
        assert said.claim.epsilon == 1
        before = ana.budget("survey").spent
        first, second = (card.release(ROWS, progress=False) for _ in range(2))
        assert ana.budget("survey").spent == before + said.price
        (line,) = lines_of(house.controller.controller_state, card.name)
        assert (line.kind, line.state, line.price) == ("fit", SpendState.SETTLED, said.price)
        assert tasks == ["keep", "draw", "draw"]
        assert not np.array_equal(first.dataset.codes, second.dataset.codes)
        assert card.state is CardState.RELEASED
        assert_consistent(house.controller.controller_state)

    def test_it_says_what_it_holds_against(self, ana):
        card = agreed(ana)
        lines = dict(card.lines())
        assert lines["Reliable for"] == Tier.PRIVATE.holds_against
        assert "no psi is released" in lines["Tier"]
        assert lines["Measured"].startswith("no psi; one fit of the generator, rho 0.02435597")
        assert "epsilon 1" in lines["Claims"]
        assert html.escape(Tier.PRIVATE.holds_against) in card._repr_html_()
        assert "Error" not in lines

    def test_it_may_be_run_on_made_up_records_from_afar(self, ana):
        card = agreed(ana)
        records = made_up(card.agreement.domain, 100, rng=rng_of(1))
        assert len(RemoteBox(ana._connection, card.name)(records, 50, seed=1)) == 50

    def test_what_was_asked_is_in_the_diff(self, ana):
        card = ana.propose(
            "survey",
            PAIRS,
            purpose="a test",
            generator="mst",
            rows=ROWS,
            rho="0.02",
            neighbouring="replace-one",
        )
        (change,) = card.changes
        assert (change.field, change.reason) == ("privacy", "GENERATOR_ADDS_NOISE")

    def test_a_cap_that_does_not_cover_the_fit_is_kept(self, ana):
        cards = [agreed(ana, "bayes") for _ in range(2)]
        refused = 0
        for card in cards:
            try:
                card.release(10, progress=False)
            except BudgetExceededError:
                refused += 1
        assert refused >= 1
        assert ana.budget("survey").spent.epsilon <= 2


@pytest.fixture(scope="module")
def released(house):
    with house.analyst() as analyst:
        card = agreed(analyst)
        yield card, card.release(ROWS, progress=False)


class TestWhatThereIsNot:
    def test_no_psi_here_or_at_the_service(self, released, house):
        card, release = released
        with pytest.raises(NoPsiError) as refused:
            _ = card.psi
        assert "rows, the receipt and the claim" in refused.value.advice
        with pytest.raises(NoPsiError):
            card.fidelity(release)
        request = synthesis_pb2.StreamPsiRequest(card=card.name)
        for who in ("ana", "aud"):
            path = "/gencard.v1.SynthesisService/StreamPsi"
            assert call(house.channel(who), path, request).reason == "NO_PSI"

    def test_no_replay(self, released):
        card, release = released
        with pytest.raises(NotReplayableError):
            card.replay(release)

    @pytest.mark.parametrize("box", ["mst", "leaky"])
    def test_no_audit_at_the_records(self, released, house, box):
        card, _ = released
        with pytest.raises(RecordsProtectedError, match="tier private"):
            card.audit(box, where="card", progress=False)
        with house.analyst("aud") as auditor, pytest.raises(RecordsProtectedError):
            auditor.card(card.name).audit(box, where="card", progress=False)

    def test_the_report_says_what_is_left_out_and_why(self, released, tmp_path):
        card, _ = released
        report = card.report()
        report.save_html(tmp_path / "report.html")
        page = " ".join((tmp_path / "report.html").read_text().split())
        assert Tier.PRIVATE.holds_against in html.unescape(page)
        assert "no psi; one fit of the generator" in page
        assert set(report.findings) == {"row-uniques"}
        assert "at most" in dict(report.lines())["Risk bound"]
        reasons = {left.what.lower(): left.why for left in report.left_out}
        assert "no psi" in next(why for what, why in reasons.items() if "fidelity" in what)
        assert report.document()["holdsAgainst"] == Tier.PRIVATE.holds_against
        assert report.document()["release"]["psi"] is None

    def test_a_folder_verifies_without_psi(self, released, house, tmp_path):
        folder = released[1].save(tmp_path / "kept")
        keys = Keys.of(Credentials.of_folder(house.person("ana")))
        checks = {check.what: check for check in verify(Bundle.of([folder]), keys, datetime.now(UTC))}
        assert {check.outcome for check in checks.values()} <= {Outcome.PASSED, Outcome.NOTED}
        assert checks["psi"].detail.startswith("none")
        assert Tier.PRIVATE.holds_against in checks["Tier"].detail
        with pytest.raises(NoPsiError):
            Bundle.of([folder]).psi()
        assert Bundle.of([folder]).domain() == released[1].dataset.domain


class TestFailures:
    def test_a_fit_that_failed_at_the_records_stays_spent(self, house, ana, monkeypatch):
        card, real = agreed(ana), run_module.Run.job

        def job(self, task, description):
            if task.name == "keep":
                raise BlackBoxError(problem="of any kind")
            return real(self, task, description)

        monkeypatch.setattr(run_module.Run, "job", job)
        for _ in range(2):
            with pytest.raises(BoxRunFailedError):
                card.release(10, progress=False)
        (line,) = lines_of(house.controller.controller_state, card.name)
        assert line.state is SpendState.RESERVED

    def test_a_fit_that_was_kept_and_not_settled_is_paid_and_not_made_again(
        self, house, ana, tasks, monkeypatch
    ):
        card, real = agreed(ana), type(house.controller.controller_state.ledger).settle
        with monkeypatch.context() as patch:
            patch.setattr(type(house.controller.controller_state.ledger), "settle", _breaks)
            with pytest.raises(GencardError):
                card.release(10, progress=False)
        assert type(house.controller.controller_state.ledger).settle is real
        card.release(10, progress=False)
        assert tasks == ["keep", "draw"]
        states = [line.state for line in lines_of(house.controller.controller_state, card.name)]
        assert states.count(SpendState.SETTLED) == 1


def _breaks(*_args, **_kwargs):
    raise RuntimeError("between the fit and its payment")


class TestPoliciesThatCannotHold:
    @pytest.mark.parametrize(
        ("box", "parameters", "why"),
        [
            ("mst", '{ epsilon = "9" }', "replace-one"),
            ("mst", '{ epsilon = "9", neighbouring = "replace-one" }', "exceeds most_per_card"),
            ("privbayes", '{ epsilon = "9" }', "exceeds most_per_card"),
        ],
        ids=["another relation", "rho over the cap", "epsilon over the cap"],
    )
    def test_the_service_does_not_start(self, tmp_path, box, parameters, why):
        broken = noise_alone(tmp_path)
        with broken.settings_file.open("a") as settings:
            settings.write(
                f'\n[[black_boxes]]\nname = "dear"\nkind = "built_in"\nbox = "{box}"\n'
                f"parameters = {parameters}\n"
            )
        broken.edit({"generators": '["ipf", "dear"]'})
        with pytest.raises(InvalidInputError, match=why):
            broken.start()

    def test_no_policy_names_the_generators_own_noise(self, tmp_path):
        broken = noise_alone(tmp_path)
        broken.edit({"mechanisms": '["generator"]'})
        with pytest.raises(InvalidInputError):
            broken.start()


class FixedNoise:
    """Noise that fell so that every answer is what it is here, whatever the counts were."""

    def laplace(self, counts, scale):
        return np.full_like(counts, 40)

    gaussian = laplace

    def choose(self, scores, scale):
        return 0


@dataclass
class World:
    """All that is drawn is drawn alike in every world; only the records differ."""

    folder: Path
    data: pd.DataFrame

    def answers(self, patch: pytest.MonkeyPatch) -> list[Ending]:
        """Record the answers about a private card to analyst and auditor, byte by byte."""
        # each caller has a count of its own: calls draw traces while a job draws names and seeds, so
        # that one count of all would depend on threads
        names, seeds = defaultdict(lambda: count(1)), count(1)

        def token_hex(size: int = 32) -> str:
            return f"{next(names[sys._getframe(1).f_code]):0{2 * size}x}"

        patch.setattr(secrets, "token_hex", token_hex)
        patch.setattr(secrets, "randbits", lambda bits: next(seeds))
        patch.setattr(Vault, "version", lambda *_: "aa" * 32)
        patch.setattr(door, "measure", _never)
        patch.setattr(black_boxes, "box_of", _fixed)
        file = self.folder / "survey.csv"
        self.data.to_csv(file, index=False)
        moment = datetime(2026, 11, 22, tzinfo=UTC)
        house = House(self.folder / "controller")
        house.controller = wiring.serve(house.settings(), lambda: moment)
        try:
            with house.analyst() as analyst:
                card = agreed(analyst)
                release = card.release(ROWS, progress=False)
            asked = list(_questions(card.name, release.name))
            return [call(house.channel(who), *question) for who in ("ana", "aud") for question in asked]
        finally:
            house.stop()


def _fixed(_recipe):
    return Mst(gaussian(1, neighbouring="replace-one"), FixedNoise())


def _never(*_args, **_kwargs):
    raise AssertionError("exact counts were asked for")


def _questions(card: str, release: str):
    prefix = "/gencard.v1"
    yield f"{prefix}.CatalogService/ListGenerators", catalog_pb2.ListGeneratorsRequest()
    yield f"{prefix}.CatalogService/GetDataset", catalog_pb2.GetDatasetRequest(name="datasets/survey")
    yield f"{prefix}.NegotiationService/GetCard", negotiation_pb2.GetCardRequest(name=card)
    yield f"{prefix}.SynthesisService/GetRelease", synthesis_pb2.GetReleaseRequest(name=release)
    yield f"{prefix}.SynthesisService/ListReleases", synthesis_pb2.ListReleasesRequest(parent=card)
    yield f"{prefix}.SynthesisService/StreamRows", synthesis_pb2.StreamRowsRequest(name=release)
    yield f"{prefix}.SynthesisService/StreamPsi", synthesis_pb2.StreamPsiRequest(card=card)
    yield (
        f"{prefix}.AuditService/RunAudit",
        audit_pb2.RunAuditRequest(card=card, request_id="00000000-0000-4000-8000-000000000001"),
    )
    yield f"{prefix}.AuditService/ListAudits", audit_pb2.ListAuditsRequest(parent=card)
    yield f"{prefix}.MeasuresService/ListMeasures", measures_pb2.ListMeasuresRequest(parent=card)
    yield f"{prefix}.LedgerService/ListSpends", ledger_pb2.ListSpendsRequest()
    yield f"{prefix}.LogService/GetCheckpoint", ledger_pb2.GetCheckpointRequest()
    yield "/google.longrunning.Operations/ListOperations", operations_pb2.ListOperationsRequest()


def test_nothing_but_the_noisy_fit_depends_on_the_records(tmp_path):
    """Two worlds with as many records and nothing in common; the noise falls so that fits are equal."""
    world, unused = tmp_path / "world", tmp_path / "unused"
    world.mkdir()
    noise_alone(world, survey(600, seed=1))
    shutil.copytree(world, unused)
    same = survey(600, seed=1)
    other = pd.DataFrame({name: [same[name].max()] * 600 for name in same.columns})
    found = []
    for data in (same, other):
        with pytest.MonkeyPatch.context() as patch:
            run_jobs_in_threads(patch)
            found.append(World(world, data).answers(patch))
        shutil.rmtree(world)
        if unused.exists():
            unused.rename(world)  # the same paths, which settings name and the log digests
    assert found[0] == found[1]
    assert sum(bool(one.answers) for one in found[0]) >= 16
