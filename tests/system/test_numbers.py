"""Numbers with a step, from the records to the analyst's file: drafted, counted, drawn, replayed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from gencard.client import histogram, total
from gencard.client.checking.checks import check_delivered_file, check_psi
from gencard.client.shell.main import app as analyst_shell
from gencard.controller.drafting.folder import drafted_schema_text
from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.shell.main import app as steward_shell
from gencard.core.card.sums import scale_of
from gencard.core.errors import VerificationError
from gencard.core.statistics.marginals import rank
from gencard.core.statistics.numbers import places_of
from gencard.core.statistics.psi import Psi
from gencard.measures.utility.numbers import Source, Statistic
from gencard.run.levels import Numbers
from gencard.run.session import frame_of
from gencard.wire.canonical import json_bytes
from tests.system.house import House, build, survey
from tests.system.raw_calls import configure

DAYS = pd.date_range("2013-01-01", "2013-12-31")


def expenditures(records: int = 6_000, seed: int = 7) -> pd.DataFrame:
    """Amounts with many zeros and a long tail, to the cent; hours with a heap at 40; dates."""
    rng = np.random.default_rng(seed)
    spent = np.exp(rng.normal(4.5, 1.4, records)).round(2)
    hours = np.where(rng.random(records) < 0.4, 40, rng.integers(1, 90, records))
    frame = survey(records).drop(columns=["region", "age"])
    return frame.assign(
        spent=np.where(rng.random(records) < 0.23, 0, np.minimum(spent, 20_000)),
        hours=hours,
        day=DAYS[rng.integers(0, len(DAYS), records)].strftime("%Y-%m-%d"),
    )


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    return expenditures()


@pytest.fixture(scope="module")
def house(records, tmp_path_factory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("numbers")
    built = build(folder, records)
    text = drafted_schema_text(draft_schema(folder / "survey.csv", "A survey", today=date(2026, 1, 1)))
    (built.folder / "schema.toml").write_text(text.replace("reviewed = false", "reviewed = true"))
    built.offer_private('["ipf", "maximum-entropy", "graphical", "independent"]')
    noise = '{ mechanism = "gaussian", neighbouring = "add-remove", rho = "0.5" }'
    offered = {"histograms": '"exact"', "sums": '"exact"', "noise": noise}
    configure(built, "datasets.policy", mechanisms='["exact", "gaussian"]', **offered)
    yield built.start()
    built.stop()


@pytest.fixture(scope="module", params=["ipf", "maximum-entropy", "graphical", "independent"])
def rows(request, house, tmp_path_factory):
    """The file of a release of one generator, and the release's folder."""
    pairs = [("spent", "sex"), ("hours", "sex"), ("day", "sex")]
    with house.analyst() as analyst:
        card = analyst.propose("survey", pairs, purpose="A test", generator=request.param, rows=6_000)
        release = card.accept().release(6_000, seed=11, progress=False)
        folder = release.save(tmp_path_factory.mktemp("release") / "kept", "rows.csv")
        frame = release.frame
    return pd.read_csv(folder / "rows.csv", dtype=str), folder, frame


def test_amounts_are_written_to_the_cent_and_zeros_are_zeros(rows, records):
    texts, _, frame = rows
    assert texts.spent.str.fullmatch(r"\d+\.\d\d").all()
    np.testing.assert_array_equal(texts.spent.astype(float), frame.spent)
    for column, heap in (("spent", 0), ("hours", 40)):
        share = (records[column] == heap).mean()
        assert abs((frame[column] == heap).mean() - share) < 5 * np.sqrt(share / len(records))
    assert str(frame.hours.dtype) == "int64"
    assert abs(frame.spent.mean() / records.spent.mean() - 1) < 0.2


def test_what_is_invented_is_said(house):
    with house.analyst() as analyst:
        card = analyst.propose("survey", [("spent", "sex")], purpose="A test", rows=600)
        release = card.accept().release(600, seed=1, progress=False)
        words = "values inside levels are invented: spent"
        assert dict(release.lines())["Numbers"] == words
        report = card.fidelity(release).lines()
    assert report[0] == ("Not seen", f"{words}; distances are between levels")


def test_dates_come_out_as_dates_of_the_declared_year(rows):
    texts, _, frame = rows
    assert (pd.to_datetime(texts.day) == frame.day).all()
    assert frame.day.dt.year.unique().tolist() == [2013]


def test_rows_are_replayed_and_verified_to_the_byte(rows, house):
    _, folder, _ = rows
    for command, said in (("replay", "Every byte agrees"), ("verify", "Everything agrees")):
        result = CliRunner().invoke(
            analyst_shell, [command, str(folder), "-c", str(house.person("ana"))]
        )
        assert (result.exit_code, said in result.output) == (0, True), result.output


def test_check_says_how_many_values_are_rounded_and_clamped(house, records):
    """For the steward alone; counted here with pandas."""
    schema = house.folder / "schema.toml"
    before = schema.read_text()
    narrower = before.replace(', 10000]\nstep = "0.01"', ']\nstep = "0.1"\nabove = "highest"')
    assert narrower != before
    schema.write_text(narrower)
    try:
        result = CliRunner().invoke(steward_shell, ["check", "-c", str(house.settings_file)])
    finally:
        schema.write_text(before)
    rounded = int((records.spent != records.spent.round(1)).sum())
    above = int((records.spent >= 5_000.05).sum())
    assert above > 0
    said = " ".join(result.output.split())
    assert f"of the values of spent, {rounded:,} are rounded to a multiple of the step" in said
    assert f"{above:,} above the last edge count as it" in said


def test_the_catalogue_says_what_was_drafted_from_the_records(house):
    with house.analyst() as analyst:
        attributes = {one.name: one for one in analyst.dataset("survey").attributes}
    assert attributes["spent"].attribute.drafted == "records"
    assert attributes["spent"].type == "decimal, step 0.01, drafted from the records"
    assert attributes["hours"].type == "integer, drafted from the records"
    assert attributes["sex"].attribute.drafted == ""


PHI = (
    ("hours", "sex"),
    histogram("spent"),
    total("spent", by=["sex"]),
    total("spent", "hours"),
    total("hours", "hours", by=["sex"]),
)


@pytest.fixture(scope="module")
def card(house):
    """The card, a release and psi."""
    with house.analyst() as analyst:
        noise = {"rho": "0.5", "neighbouring": "add-remove"}
        card = analyst.propose("survey", PHI, purpose="A test", rows=600, **noise).accept()
        release = card.release(600, seed=3, progress=False)
        yield card, release, card.psi


class TestSums:
    """Histograms and sums of a card, from the proposal to psi, over the wire, beside the records."""

    def test_psi_holds_them_with_the_noise_that_it_states(self, card, records):
        _, _, psi = card
        assert {str(one.sum) for one in psi.sums} == {
            "sum of spent by sex",
            "sum of hours * hours by sex",
            "sum of spent * hours",
        }
        truth = self.truth(records, psi)
        for one in psi.sums:
            assert one.stddev > 0
            errors = np.subtract(one.values, truth[str(one.sum)])
            assert (np.abs(errors) < 6 * one.stddev).all()
        assert {str(one.sum): bool(one.counts) for one in psi.sums} == {
            "sum of spent by sex": False,
            "sum of hours * hours by sex": False,
            "sum of spent * hours": False,
        }

    @staticmethod
    def truth(records, psi):
        """In units, by pandas."""
        scales = {
            one.name: one.coding.scale for one in psi.coding.attributes if hasattr(one.coding, "scale")
        }
        units = {
            name: (records[name] / float(scales[name].step)).round().astype(int) - scales[name].centre
            for name in ("spent", "hours")
        }
        table = pd.DataFrame(units).assign(sex=records.sex, squares=units["hours"] ** 2)
        by_sex = table.groupby("sex")[["spent", "squares"]].sum()
        by_sex = by_sex.loc[list(psi.coding.attribute("sex").coding.labels)]
        return {
            "sum of spent by sex": by_sex.spent.to_numpy(),
            "sum of hours * hours by sex": by_sex.squares.to_numpy(),
            "sum of spent * hours": [int((table.spent * table.hours).sum())],
        }

    def test_rows_are_of_the_marginals_alone_and_replay(self, card):
        agreed, release, _ = card
        assert sorted(release.frame.columns) == ["hours", "sex"]
        assert agreed.replay(release)

    def test_tables_show_them(self, card):
        tables = card[2].tables()
        counts = tables["histogram of spent"]
        assert (counts["first"].iloc[0], counts["last"].iloc[0]) == (0, 0)
        assert (counts["last"] < counts["first"].shift(-1).fillna(np.inf)).all()
        assert list(tables["sum of spent by sex"].index) == list(
            card[2].coding.attribute("sex").coding.labels
        )

    def test_the_bundle_verifies_and_another_sum_does_not(self, card, house, tmp_path):
        folder = card[1].save(tmp_path / "kept", "rows.csv")
        verify = ["verify", str(folder), "-c", str(house.person("ana"))]
        assert CliRunner().invoke(analyst_shell, verify).exit_code == 0
        psi = folder / "psi.json"
        text = psi.read_bytes()
        psi.write_bytes(text.replace(b'"values":["', b'"values":["1', 1))
        assert CliRunner().invoke(analyst_shell, verify).exit_code != 0

    def test_a_psi_with_other_noise_or_other_sums_is_not_that_of_the_card(self, card):
        agreement, psi = card[0].agreement, card[2]
        check_psi(agreement.card, psi, agreement.coding)
        one, *rest = psi.sums
        (counts,) = psi.histograms
        for changed in (
            {"sums": tuple(rest)},
            {"sums": (replace(one, stddev=one.stddev / 2), *rest)},
            {"sums": (replace(one, counts=(1,) * len(one.values)), *rest)},
            {"sums": (*rest, one)},
            {"histograms": ()},
            {"histograms": (replace(counts, stddev=counts.stddev * 2),)},
            {"histograms": (replace(counts, counts=counts.counts[1:]),)},
        ):
            parts = {"histograms": psi.histograms, "sums": psi.sums} | changed
            other = Psi(psi.domain, psi.measurements, psi.linear, **parts)
            with pytest.raises(VerificationError):
                check_psi(agreement.card, other, agreement.coding)

    def test_weights_divide_the_budget_among_them(self, house):
        spent, by_sex = histogram("spent"), total("spent", by=["sex"])
        noise = {"rho": "0.5", "neighbouring": "add-remove", "weights": {by_sex: 3, spent: 2}}
        phi = [("hours", "sex"), by_sex, spent]
        with house.analyst() as analyst:
            card = analyst.propose("survey", phi, purpose="A test", rows=600, **noise).accept()
            card.release(10, seed=1, progress=False)
            (counts,), (summed,) = card.psi.histograms, card.psi.sums
        scale = scale_of(card.psi.coding, "spent")
        assert card.agreement.card.terms.weights == (1, 2, 3)
        assert counts.stddev == pytest.approx(np.sqrt(1 / (2 * 0.5 * 2 / 6)), rel=1e-6)
        assert summed.stddev == pytest.approx(
            max(map(abs, scale.unit_ends)) * np.sqrt(1 / (2 * 0.5 * 3 / 6)), rel=1e-6
        )


@pytest.fixture(scope="module")
def exact_card(house):
    """The same card with exact counts, a release and psi; its analyst holds no other card."""
    house.enrol("bob")
    with house.analyst("bob") as analyst:
        card = analyst.propose("survey", PHI, purpose="A test", rows=600).accept()
        release = card.release(600, seed=3, progress=False)
        yield card, release, card.psi


class TestExactSums:
    """Exact histograms and sums of a card, over the wire, beside the records."""

    def test_they_are_those_of_the_records(self, exact_card, records):
        _, _, psi = exact_card
        truth = TestSums.truth(records, psi)
        for one in psi.sums:
            assert (one.stddev, one.counts_stddev) == (0, 0)
            np.testing.assert_array_equal(one.values, truth[str(one.sum)])
        (counts,) = psi.histograms
        assert counts.stddev == 0
        assert sum(counts.counts) == len(records)
        assert counts.counts[0] == (records.spent == 0).sum()

    def test_the_card_costs_its_independent_statistics(self, exact_card):
        agreed, _, psi = exact_card
        names = agreed.agreement.card.terms
        assert agreed.price.statistics == rank(psi.coding, names.marginals, names.histograms, names.sums)
        assert agreed.changes == ()

    def test_a_card_that_they_determine_costs_nothing_more(self, exact_card, house):
        with house.analyst("bob") as analyst:
            card = analyst.propose("survey", [("sex",), total("spent")], purpose="A test", rows=10)
            assert card.price.statistics == 0
            wider = [("sex",), total("spent", "spent")]
            assert analyst.propose("survey", wider, purpose="A test", rows=10).price.statistics == 1

    def test_it_replays_and_verifies_and_another_sum_does_not(self, exact_card, house, tmp_path):
        agreed, release, _ = exact_card
        assert agreed.replay(release)
        folder = release.save(tmp_path / "kept", "rows.csv")
        verify = ["verify", str(folder), "-c", str(house.person("bob"))]
        assert CliRunner().invoke(analyst_shell, verify).exit_code == 0

    def test_a_psi_that_contradicts_itself_is_not_that_of_the_card(self, exact_card):
        agreement, psi = exact_card[0].agreement, exact_card[2]
        check_psi(agreement.card, psi, agreement.coding)
        for place, one in enumerate(psi.sums):
            if one.sum.by:
                continue
            sums = list(psi.sums)
            sums[place] = replace(one, values=(10**30,))
            other = Psi(psi.domain, psi.measurements, psi.linear, psi.histograms, tuple(sums))
            with pytest.raises(VerificationError, match="range"):
                check_psi(agreement.card, other, agreement.coding)
        (counts,) = psi.histograms
        more = (replace(counts, counts=(counts.counts[0] + 1, *counts.counts[1:])),)
        other = Psi(psi.domain, psi.measurements, psi.linear, more, psi.sums)
        with pytest.raises(VerificationError, match="number of records"):
            check_psi(agreement.card, other, agreement.coding)


PLACED = (
    ("spent", "sex"),
    ("hours", "sex"),
    ("day", "sex"),
    histogram("spent"),
    histogram("hours"),
    total("spent"),
    total("hours"),
)


@pytest.fixture(scope="module")
def placed(house, tmp_path_factory):
    """The offer, the agreed card, a release, and its folder."""
    with house.analyst() as analyst:
        noise = {"rho": "2", "neighbouring": "add-remove"}
        card = analyst.propose("survey", PLACED, purpose="A test", rows=40_000, **noise)
        offered = dict(card.lines())
        release = card.accept().release(40_000, seed=5, progress=False)
        folder = release.save(tmp_path_factory.mktemp("placed") / "kept", "rows.csv")
        yield offered, card, release, folder


class TestPlacedByPsi:
    """Rows whose numbers lie inside their levels as the card's histograms and sums say."""

    WORDS = "values inside levels are invented: day"

    def test_numbers_are_those_of_the_records_but_for_noise(self, placed, records):
        frame = placed[2].frame
        both = np.concatenate([frame.spent, records.spent])
        shares = [
            np.searchsorted(np.sort(part), both, "right") / len(part)
            for part in (frame.spent, records.spent)
        ]
        assert np.abs(shares[0] - shares[1]).max() < 0.04
        assert abs(frame.spent.mean() / records.spent.mean() - 1) < 0.1
        assert abs((frame.hours == 40).mean() - (records.hours == 40).mean()) < 0.03

    def test_what_is_invented_still_is_said_everywhere(self, placed, tmp_path):
        offered, card, release, folder = placed
        assert offered["Numbers"] == self.WORDS
        assert dict(release.lines())["Numbers"] == self.WORDS
        assert card.fidelity(release).lines()[0] == (
            "Not seen",
            f"{self.WORDS}; distances are between levels",
        )
        assert f"Numbers: {self.WORDS}\n" in (folder / "README.txt").read_text()
        release.write(tmp_path / "rows.parquet")
        said = parquet.ParquetFile(tmp_path / "rows.parquet").schema_arrow.metadata
        assert said == {b"gencard": self.WORDS.encode()}
        release.write(tmp_path / "levels.parquet", values="levels")
        assert not parquet.ParquetFile(tmp_path / "levels.parquet").schema_arrow.metadata
        again = release.save(tmp_path / "levels", "rows.csv", values="levels")
        assert not (again / "README.txt").exists()

    def test_fidelity_compares_the_same_numbers_of_release_frame_and_files(self, placed, tmp_path):
        """Offline from a folder, too."""
        _, card, release, folder = placed
        facts = card.fidelity(release).facts
        assert facts == card.fidelity(release.frame).facts
        release.write(tmp_path / "rows.parquet")
        for data in ("rows.csv", "rows.parquet"):
            path = folder / data if data == "rows.csv" else tmp_path / data
            shown = CliRunner().invoke(
                analyst_shell, ["fidelity", str(folder), "--data", str(path), "--json"]
            )
            assert shown.exit_code == 0, shown.output
            told = json.loads(shown.stdout)["numbers"]
            assert told == json.loads(json.dumps(card.fidelity(release).document()["numbers"]))
        means = {
            one.attributes[0]: one for one in facts.numbers.figures if one.statistic == Statistic.MEAN
        }
        for name in ("spent", "hours"):
            assert means[name].rows == pytest.approx(release.frame[name].mean())
            assert means[name].noise > 0
        assert means["day"].source is Source.LEVELS
        assert facts.numbers.unexplained == ()

    def test_a_report_opens_with_what_fidelity_does_not_see(self, placed):
        _, card, release, _ = placed
        report = card.report(release.name, progress=False)
        assert report.available["fidelity"].facts == card.fidelity(release).facts
        (measure,) = [one for one in report.document()["measures"] if one["name"] == "fidelity"]
        assert measure["sentence"].startswith(f"Not seen: {self.WORDS}")
        assert measure["found"]["facts"]["numbers"]["figures"]

    @pytest.mark.parametrize("person", ["sam", "aud"])
    def test_the_report_of_others_has_them_too_without_fetching_rows(self, placed, house, person):
        """The controller compares the numbers of rows of its own with psi."""
        _, card, release, _ = placed
        mine = card.report(release.name, progress=False)
        with house.analyst(person) as reader:
            report = reader.card(card.name).report(release.name, progress=False)
        assert report.reader != mine.reader
        assert report.lines()[0] == mine.lines()[0]
        assert report.lines()[0] == ("Not seen", f"{self.WORDS}; distances are between levels")
        tables = report.numbers.table, mine.numbers.table
        assert [one.known for one in tables[0].figures] == [one.known for one in tables[1].figures]
        assert tables[0] != tables[1], "other rows"
        assert tables[0].unexplained == ()
        for one in (report, mine):
            assert 'id="numbers"' in one.html
            assert "Differences of numbers" in one.html
            assert ("spent", "mean") in [line[:2] for line in one.numbers.lines(10)]

    def test_release_frame_and_each_file_replay_to_the_byte(self, placed, house, tmp_path):
        _, card, release, folder = placed
        assert card.replay(release)
        assert card.replay(release.frame)
        release.write(folder / "rows.parquet")
        for command, said in (("replay", "Every byte agrees"), ("verify", "Everything agrees")):
            result = CliRunner().invoke(
                analyst_shell, [command, str(folder), "-c", str(house.person("ana"))]
            )
            assert (result.exit_code, said in result.output) == (0, True), result.output

    def test_a_release_that_is_fetched_later_has_the_same_numbers(self, placed, house):
        release = placed[2]
        with house.analyst() as analyst:
            again = analyst.card(release.card).agreement.fetch(release.name, False)
            pd.testing.assert_frame_equal(again.frame, release.frame)
            assert again.head(3) == release.head(3)

    def test_numbers_that_the_histogram_did_not_place_are_no_release(self, placed):
        _, card, release, _ = placed
        frame = frame_of(release.dataset, release.coding, Numbers(5))
        with pytest.raises(VerificationError):
            card.replay(frame)

    def test_a_changed_histogram_makes_replay_fail(self, placed, house, tmp_path):
        folder = placed[2].save(tmp_path / "kept", "rows.csv")
        psi = json.loads((folder / "psi.json").read_bytes())
        counts = psi["histograms"][0]["counts"]
        counts[3] = str(int(counts[3]) + 1)
        (folder / "psi.json").write_bytes(json_bytes(psi))
        for command in ("replay", "verify"):
            result = CliRunner().invoke(
                analyst_shell, [command, str(folder), "-c", str(house.person("ana"))]
            )
            assert result.exit_code != 0

    def test_a_file_that_says_otherwise_of_its_values_is_not_the_delivered_one(self, placed, tmp_path):
        _, card, release, _ = placed
        path, places = tmp_path / "rows.parquet", places_of(card.psi, release.coding)
        release.write(path)
        given = (release.dataset, release.coding, [5])
        check_delivered_file(path, *given, places)
        table = parquet.read_table(path).replace_schema_metadata({})
        parquet.write_table(table, path)
        with pytest.raises(VerificationError):
            check_delivered_file(path, *given, places)
