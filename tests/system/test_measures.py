"""Measures of cards, and reports, on a real service."""

import json

import pytest
from google.longrunning import operations_pb2
from typer.testing import CliRunner

from gencard.client.card_report import known_measures, run_measures
from gencard.client.connection.connection import result_of
from gencard.client.findings.findings import EXPLANATIONS
from gencard.client.shell.main import app
from gencard.controller import operations as run_module
from gencard.controller.evaluations import EvaluationRun
from gencard.core.card.budget import Price, SpendState
from gencard.core.errors import (
    BudgetExceededError,
    CardStateError,
    DatasetChangedError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
)
from gencard.measures.evaluation.evaluation import Group
from gencard.measures.evaluation.registry import EVALUATIONS, price_in_statistics
from gencard.v1 import measures_pb2
from tests.system.house import build, declare, request_id, survey
from tests.system.raw_calls import call, configure, enrolled, state_unchanged
from tests.system.stewards import Steward

PAIRS = [("sex", "health"), ("sex", "work"), ("health", "region"), ("age",)]
RUN = "/gencard.v1.MeasuresService/RunMeasures"
MINE = ("dcr", "marginals")
OWN = {"fidelity", "row-uniques", "associations"}
"""Measures that analysts compute by themselves."""


@pytest.fixture(scope="module")
def measured_house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measures")
    house = build(folder, survey(900))
    house.raise_caps()
    survey(500, seed=9).to_csv(folder / "others.csv", index=False)
    declare(house, folder / "others.csv")
    configure(
        house, "datasets.policy", measures='["dcr", "marginals", "tables"]', without_uniques="true"
    )
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def card(measured_house):
    with measured_house.analyst() as analyst:
        yield analyst.propose("survey", PAIRS, purpose="a test", rows=800, measures=MINE).accept()


@pytest.fixture(scope="module")
def release(card):
    return card.release(800, seed=1, progress=False)


@pytest.fixture
def people(measured_house):
    """ana, aud and sam, connected."""
    with (
        measured_house.analyst() as ana,
        measured_house.analyst("aud") as aud,
        measured_house.analyst("sam") as sam,
    ):
        yield {"ana": ana, "aud": aud, "sam": sam}


@pytest.fixture
def fresh(people):
    """A card of ana's of which nothing was measured, with a release."""
    own = people["ana"].propose("survey", PAIRS[:2], purpose="a test", rows=800, measures=MINE).accept()
    own.release(60, progress=False)
    return own


def run(person, card, names=()):
    return run_measures(person._connection, card.name, names, False)


class TestWhoMayKnowWhat:
    @pytest.mark.parametrize("name", ["aud", "sam"])
    def test_auditor_and_steward_get_all_that_the_card_can_have_and_pay(self, people, fresh, name):
        found = run(people[name], fresh)
        assert set(found.findings) | set(found.unavailable) == set(EVALUATIONS)
        assert {"dcr", "disclosure", "tables", "fidelity", "gap"} <= found.findings.keys()
        line = people[name].spends()[0]
        assert (line.kind, line.state) == ("measures", SpendState.SETTLED)
        assert line.price.statistics == found.statistics > 500
        assert line.analyst.endswith(f"/{name}")

    def test_an_analyst_gets_what_the_card_names_and_pays_for_each_number(self, people, fresh):
        found = run(people["ana"], fresh)
        assert set(found.findings) == set(MINE)
        price = price_in_statistics(MINE, attributes=3, marginals=2)
        line = people["ana"].spends()[0]
        assert (line.kind, line.state) == ("measures", SpendState.SETTLED)
        assert line.price.statistics == found.statistics == price

    def test_who_asks_first_pays_and_the_others_read(self, people, fresh):
        first = run(people["aud"], fresh, ["dcr", "nndr"])
        known = len(people["ana"].spends())
        again = fresh.measures(["dcr"], progress=False)
        assert again.findings == {"dcr": first.findings["dcr"]}
        assert len(people["ana"].spends()) == known
        both = run(people["ana"], fresh)
        assert both.findings["dcr"] == first.findings["dcr"]
        assert people["ana"].spends()[0].price.statistics == price_in_statistics(
            ["marginals"], attributes=3, marginals=2
        )
        assert set(fresh.measures().findings) == set(MINE)  # nndr is not on the card

    @pytest.mark.parametrize("names", [["nndr"], ["dcr", "nndr"], ["fidelity"]])
    def test_an_analyst_gets_nothing_else(self, people, card, release, names, measured_house):
        with state_unchanged(measured_house), pytest.raises(PermissionDeniedError):
            run(people["ana"], card, names)

    def test_a_card_that_names_nothing_gives_nothing(self, people):
        own = people["ana"].propose("survey", PAIRS[:1], purpose="a test").accept()
        own.release(50, progress=False)
        with pytest.raises(PermissionDeniedError):
            run(people["ana"], own)

    def test_before_the_first_release_there_is_nothing_to_measure(self, people, measured_house):
        own = people["ana"].propose("survey", PAIRS[:1], purpose="x", measures=["dcr"]).accept()
        for person in people.values():
            with state_unchanged(measured_house), pytest.raises(InvalidInputError, match="no release"):
                run(person, own)

    def test_anothers_card_is_as_unknown_as_none(self, measured_house, card):
        with measured_house.analyst(enrolled(measured_house, "bob")) as bob:
            for asked in (card.name, card.name[:-3] + "000"):
                with pytest.raises(NotFoundError):
                    run_measures(bob._connection, asked, (), False)

    def test_anothers_evaluation_reads_as_none(self, measured_house, people, card, release):
        auditor, path = people["aud"]._connection, "/gencard.v1.MeasuresService/GetMeasures"
        run(people["aud"], card, ["dcr"])
        listed = measures_pb2.ListMeasuresRequest(parent=card.name)
        name = auditor.call(auditor.measures.ListMeasures, listed).measures[0].name
        channel = measured_house.channel(enrolled(measured_house, "bob"))
        anothers, nobodys = (
            call(channel, path, measures_pb2.GetMeasuresRequest(name=one))
            for one in (name, f"{card.name}/measures/none")
        )
        assert anothers == nobodys
        assert anothers.reason == "NOT_FOUND"

    def test_keys_and_target_are_a_table_that_the_policy_must_allow(self, people, card, release):
        """Two keys and a target: three attributes, and the policy allows two together."""
        for person in people.values():
            reasons = person.card(card.name).measures().unavailable
            assert (
                "does not allow examining the declared keys with the target together"
                in reasons["disclosure"]
            )


class TestRounding:
    def test_no_share_is_told_finer_than_ten_records(self, people, card, release):
        """S7: of 900 records, steps of two per cent."""
        shares = run(people["aud"], card, ["replicated-uniques"]).findings["replicated-uniques"].shares
        for _, share in shares:
            assert share == pytest.approx(round(share / 0.02) * 0.02, abs=1e-9)


class TestTheQuote:
    """Prices of measures are quoted before anything is agreed."""

    def test_it_is_what_is_then_charged_once(self, people, fresh, measured_house):
        with state_unchanged(measured_house):
            asked = {"purpose": "a test", "measures": MINE, "rows": 800, "dry_run": True}
            quoted = people["ana"].propose("survey", PAIRS[:2], **asked)
            plain = people["ana"].price("survey", PAIRS[:2])
        assert quoted.price == plain  # of psi alone
        assert quoted.measures_price == people["ana"].measures_price("survey", PAIRS[:2], measures=MINE)
        assert quoted.measures_price.statistics == run(people["ana"], fresh).statistics
        assert str(quoted.measures_price) in dict(quoted.lines())["Evaluations"]

    def test_it_is_nothing_where_nothing_is_named_or_nothing_can_be_had(self, people):
        ana = people["ana"]
        assert ana.measures_price("survey", PAIRS) == Price()
        bare = ana.propose("survey", [("age",)], purpose="x", measures=["dcr", "gap"], dry_run=True)
        assert bare.terms.measures == ("dcr",)  # the policy offers no other
        assert bare.measures_price.statistics == price_in_statistics(["dcr"], attributes=1, marginals=1)

    def test_the_command_says_it(self, people, measured_house):
        folder = measured_house.person("ana")
        (folder / "connection.toml").write_text(f'address = "{measured_house.address}"\n')
        words = [
            "price",
            "survey",
            "--marginal",
            "sex,health",
            "--measure",
            "marginals",
            "-c",
            str(folder),
        ]
        result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
        assert json.loads(result.output)["measuresPrice"]["statistics"] == "2"
        shown = CliRunner().invoke(app, words, catch_exceptions=False)
        assert "marginals; price 2 exact statistics, once per card" in " ".join(shown.output.split())


class TestErrors:
    @pytest.mark.parametrize("names", [["dcr", "dcr"], ["nonsense"], ["x" * 300]])
    def test_names_that_are_none(self, people, card, release, names):
        with pytest.raises(InvalidInputError):
            run(people["aud"], card, names)

    def test_too_many_names(self, measured_house, card):
        asked = measures_pb2.RunMeasuresRequest(
            card=card.name, measures=["dcr"] * 51, request_id=request_id()
        )
        assert call(measured_house.channel("aud"), RUN, asked).reason == "TOO_LARGE"

    def test_without_budget_nothing_is_measured(self, people, fresh, measured_house, monkeypatch):
        ledger = type(measured_house.controller.controller_state.ledger)
        real = ledger.reserve

        def reserve(self, tx, *payers, price, **rest):
            if rest["kind"] == "measures":
                raise BudgetExceededError(scope="dataset", left="nothing", price=str(price))
            return real(self, tx, *payers, price=price, **rest)

        monkeypatch.setattr(ledger, "reserve", reserve)
        with state_unchanged(measured_house), pytest.raises(BudgetExceededError):
            run(people["ana"], fresh)

    def test_a_crash_keeps_the_reservation(self, people, fresh, monkeypatch):
        def broken(*_):
            raise RuntimeError("CANARY")

        monkeypatch.setattr(EvaluationRun, "_keep", broken)
        with pytest.raises(InternalError) as failed:
            run(people["ana"], fresh)
        assert "CANARY" not in str(failed.value)
        assert people["ana"].spends()[0].state is SpendState.RESERVED

    def test_changed_records_are_not_measured(self, people, fresh, measured_house):
        file = measured_house.folder.parent / "others.csv"
        kept = file.read_bytes()
        try:
            file.write_bytes(kept + b"female,good,none,north,50\n")
            with pytest.raises(DatasetChangedError):
                run(people["aud"], fresh, ["dcr"])
            assert run(people["aud"], fresh, ["tables"]).findings["tables"] is not None
        finally:
            file.write_bytes(kept)


class TestRevocation:
    """A revoked card gives its analyst nothing more."""

    @pytest.fixture
    def measured(self, people):
        own = people["ana"].propose("survey", PAIRS[:2], purpose="a test", measures=["marginals"])
        agreed = own.accept()
        agreed.release(60, progress=False)
        return agreed

    @pytest.fixture
    def revoke(self, measured_house, measured):
        sam = "spiffe://example/survey/steward/sam"
        return lambda: Steward(measured_house.controller.controller_state, sam).revoke(
            measured.name, "no longer"
        )

    def test_what_was_found_before_is_told_no_more(self, people, measured, revoke):
        run(people["ana"], measured)
        revoke()
        with pytest.raises(CardStateError):
            known_measures(people["ana"]._connection, measured.name)
        assert "marginals" in known_measures(people["aud"]._connection, measured.name).findings

    def test_an_operation_holds_no_number_that_a_revoked_card_could_still_tell(
        self, people, measured, revoke
    ):
        connection, told = people["ana"]._connection, measures_pb2.RunMeasuresResponse()
        asked = measures_pb2.RunMeasuresRequest(card=measured.name, request_id=request_id())
        begun = connection.call(connection.measures.RunMeasures, asked)
        result_of(connection, begun, measures_pb2.RunMeasuresResponse, lambda *_: None)
        revoke()
        request = operations_pb2.GetOperationRequest(name=begun.name)
        for known in (
            connection.call(connection.operations.GetOperation, request),
            *connection.call(
                connection.operations.ListOperations, operations_pb2.ListOperationsRequest()
            ).operations[:1],
        ):
            assert known.response.Unpack(told)
            assert (told.card, list(told.measures)) == (measured.name, ["marginals"])
        named = measures_pb2.GetMeasuresRequest(name=f"{measured.name}/measures/marginals")
        with pytest.raises(CardStateError):
            connection.call(connection.measures.GetMeasures, named)

    def test_one_that_comes_while_records_are_read_counts(self, people, measured, revoke, monkeypatch):
        real = run_module.Run.job

        def job(self, task, description):
            found = real(self, task, description)
            revoke()
            return found

        monkeypatch.setattr(run_module.Run, "job", job)
        with pytest.raises(CardStateError):
            run(people["ana"], measured)
        assert people["ana"].spends()[0].state is SpendState.VOIDED


class TestOnce:
    """S22: one request, one effect, one answer."""

    def test_s22_repeats_have_one_effect(self, people, fresh, measured_house):
        channel, ana = measured_house.channel(), people["ana"]
        asked = measures_pb2.RunMeasuresRequest(card=fresh.name, request_id=request_id())
        first = call(channel, RUN, asked)
        before = len(ana.spends())
        assert {call(channel, RUN, asked) for _ in range(20)} == {first}
        assert len(ana.spends()) == before
        other = measures_pb2.RunMeasuresRequest(
            card=fresh.name, measures=["dcr"], request_id=asked.request_id
        )
        assert call(channel, RUN, other).reason == "REQUEST_ID_REUSED"

    @pytest.mark.parametrize("identifier", ["", "1", "00000000-0000-0000-0000-000000000000"])
    def test_s22_an_id_that_is_not_random_is_refused(self, card, measured_house, identifier):
        asked = measures_pb2.RunMeasuresRequest(card=card.name, request_id=identifier)
        assert call(measured_house.channel("aud"), RUN, asked).reason == "INVALID_INPUT"


class TestReport:
    def test_each_reads_what_the_role_may_know(self, people, card, release, tmp_path):
        run(people["aud"], card, ["dcr", "nndr"])
        for name, person in people.items():
            report = person.card(card.name).report(release.name, progress=False)
            document = json.loads(json.dumps(report.document()))
            told = {one["name"] for one in document["measures"]}
            left = {one["what"] for one in document["leftOut"]}
            assert told & {"fidelity", "dcr"} == {"fidelity", "dcr"}
            assert ("nndr" in told) is (name != "ana")
            assert (EXPLANATIONS["nndr"].title in left) is (name == "ana")
            report.save_html(tmp_path / "page.html")
            page = (tmp_path / "page.html").read_text()
            assert page.count("<svg") >= len(told)
            assert "<script" not in page
            assert "http://" not in page.replace("http://www.w3.org", "")

    @pytest.mark.parametrize("name", ["aud", "sam"])
    def test_nobodys_report_spends_anything_by_itself(self, people, fresh, name):
        before = people[name].spends()
        report = people[name].card(fresh.name).report(progress=False)
        assert set(report.available) == {"fidelity"}
        assert people[name].spends() == before

    def test_an_analyst_pays_only_when_told_to(self, people, measured_house):
        ana = people["ana"]
        own = ana.propose("survey", PAIRS[:2], purpose="a test", measures=["marginals"]).accept()
        own.release(60, progress=False)
        before = len(ana.spends())
        free = own.report(progress=False)
        assert set(free.available) == OWN
        hows = [(left.group, left.why) for left in free.left_out]
        paid = "not evaluated yet: gencard report --measure, for at most 4 statistics"
        assert (Group.UTILITY, paid) in hows
        assert any(one is Group.RISK and "propose with --measure dcr" in why for one, why in hows)
        assert len(ana.spends()) == before
        assert set(own.report(measure=True, progress=False).available) == OWN | {"marginals"}
        assert set(own.report(measure=True, progress=False).available) == OWN | {"marginals"}
        assert len(ana.spends()) == before + 1

    def test_a_card_without_a_release_has_no_report(self, people):
        own = people["ana"].propose("survey", PAIRS[:1], purpose="a test").accept()
        with pytest.raises(InvalidInputError):
            own.report(progress=False)

    def test_the_command_writes_page_and_json(self, card, release, measured_house, tmp_path):
        folder = measured_house.person("aud")
        (folder / "connection.toml").write_text(f'address = "{measured_house.address}"\n')
        words = [
            "report",
            release.name,
            "--measure",
            "--html",
            str(tmp_path / "r.html"),
            "-c",
            str(folder),
        ]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0
        assert "Distance to the closest" in result.output
        assert json.loads((tmp_path / "r.json").read_text())["reader"] == "auditor"
        assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("declared", "wrong", "problem"),
    [
        ("target = 'health'", "target = 'sex'", "keys and target"),
        ("target = 'health'", "target = 'town'", "keys and target"),
        ("second = 'female'", "second = 'nobody'", "a level that sex does not have"),
        ("within = 'health'", "within = 'sex'", "must not repeat"),
    ],
)
def test_measures_that_mean_nothing_are_found_at_the_start(tmp_path, declared, wrong, problem):
    house = build(tmp_path, survey(200))
    survey(100, seed=9).to_csv(tmp_path / "others.csv", index=False)
    declare(house, tmp_path / "others.csv")
    text = house.settings_file.read_text()
    assert declared in text
    house.settings_file.write_text(text.replace(declared, wrong))
    with pytest.raises(InvalidInputError, match=problem):
        house.start()
