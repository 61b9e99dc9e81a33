"""Figures of numbers as an analyst meets them: in fidelity and utility, as text, page and JSON."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.client.card_report import CardReport
from gencard.client.common.rows import read_numbered, write_rows
from gencard.client.findings.fidelity import FidelityReport, utility_report
from gencard.client.findings.findings import sentence
from gencard.client.shell.main import app
from gencard.core.card.sums import Sum
from gencard.core.coding import Attribute, Coding, Labels
from gencard.measures.evaluation.utility_findings import FidelityFinding
from gencard.measures.utility.fidelity import fidelity
from gencard.measures.utility.numbers import compare_with_records
from gencard.run.levels import Midpoints, Numbers
from gencard.run.session import frame_of, rows_of_frame
from gencard.wire.canonical import json_bytes
from gencard.wire.psi import coding_document
from tests.client.test_report import NASTY, Page, text_of
from tests.client.test_views import rich_text
from tests.core.test_number_fidelity import coded, psi_of, scaled
from tests.wire.samples import CARD, RECEIPT

CODING = Coding(
    (
        Attribute("g", Labels(("a", "b"))),
        scaled("med", "0.01", "0 0.01 100 5000", "0 0.01 50 100 500 5000"),
        scaled("day", "1", "15706 15900 16070", dates=True, missing=True),
        scaled("hour", "1", "0 720 1440", "0 360 720 1080 1440", times=True),
        scaled(NASTY, "1", "0 5 9"),
    )
)
NUMBERS = ("med", "day", "hour", NASTY)
PAIRS = [("g", "med"), ("g", "day"), ("g", "hour"), ("g", NASTY), ("med", "day")]
SUMS = [Sum(("med",)), Sum(("day",)), Sum(("med", "med")), Sum(("day", "day")), Sum(("hour",))]


def records(size=1_000, seed=1):
    rng = np.random.default_rng(seed)
    med = np.where(rng.random(size) < 0.25, 0, np.clip(rng.gamma(1, 300, size), 0.01, 5000).round(2))
    day = rng.integers(15706, 16071, size).astype(float)
    return {
        "g": rng.integers(0, 2, size),
        "med": med,
        "day": np.where(rng.random(size) < 0.1, np.nan, day),
        "hour": rng.integers(0, 1440, size).astype(float),
        NASTY: rng.integers(0, 10, size).astype(float),
    }


PSI = psi_of(records(), PAIRS, ("med", "day", "hour"), SUMS, CODING)


def report(rows, psi=PSI):
    return FidelityReport(
        fidelity(psi, coded(rows, CODING), coding=CODING, numbers=rows.get), CODING, "x"
    )


class Given:
    """Numbers that are already known, in place of drawn ones."""

    def __init__(self, rows):
        self.rows = rows

    def is_value(self, _name):
        return True

    def of(self, name, _coding, codes):
        """All rows of an attribute."""
        return self.rows[name][: len(codes)]

    def invented(self, _coding, _names):
        return ""


NEAR = report(records(seed=2))
FAR = report(records(seed=2) | {"med": np.minimum(records(seed=2)["med"] + 120, 5000)})


def card_report(fidelity_report, **changes):
    """The report of a card in which nothing but fidelity was evaluated."""
    given = {
        "card": CARD,
        "digest": "ab" * 32,
        "state": "released",
        "receipt": RECEIPT,
        "reader": "steward",
        "findings": {"fidelity": FidelityFinding(fidelity_report.facts)},
        "audits": (),
        "left_out": (),
        "coding": CODING,
    }
    return CardReport(**given | changes)


class TestWords:
    def test_what_is_not_seen_comes_first(self):
        first, second = NEAR.unseen
        assert first == f"values inside levels are invented: {NASTY}; distances are between levels"
        assert second.startswith(
            "effects inside levels, which rows do not have: psi has levels only of g × med"
        )
        assert NEAR.lines()[:2] == [("Not seen", first), ("Not seen", second)]
        assert repr(NEAR).startswith(f"<FidelityReport: Not seen: {first}. Not seen: {second}. All marg")
        assert sentence(FidelityFinding(NEAR.facts)).startswith(f"Not seen: {first}.")
        assert NEAR.wording.startswith("All marginals match psi")
        assert text_of(NEAR.html).index("Not seen") < text_of(NEAR.html).index("All marginals match")

    def test_noise_is_said_first_where_it_hides_differences(self):
        psi = psi_of(records(), PAIRS, NUMBERS, SUMS, CODING, stddev=80.0, rng=np.random.default_rng(1))
        noisy = report(records(seed=2), psi)
        words = " ".join(noisy.unseen)
        assert "differences below the noise in psi, which moves about" in words
        assert "differences of numbers below the noise in psi" in words
        assert re.search(r"mean of \w+ ± [\d.,]+, [\d.]+ % of its sd|sd of|share of", words)
        assert "below the noise" not in " ".join(NEAR.unseen)

    def test_differences_are_counted_in_the_wording(self):
        assert "No figure of a number differs by more than bounds, noise" in NEAR.wording
        assert re.search(r"\d of \d\d figures of numbers differ by more than bounds", FAR.wording)

    @pytest.mark.parametrize("shown", [lambda found: text_of(found._repr_html_()), rich_text])
    def test_the_table_has_dates_times_and_marks(self, shown):
        text = shown(FAR)
        for words in (
            "sd, days",
            "sd, minutes",
            "share of 0",
            "q05",
            "From",
            "histogram",
            "levels",
            NASTY,
        ):
            assert words in text
        assert re.search(r"2013-0\d-\d\d \(2013-01-01 to 2013-07-13\)", text)
        assert re.search(r"\d\d:\d\d \(00:00 to 05:59\)", text)
        assert " !" in text
        assert " !" not in shown(NEAR)

    def test_what_is_left_out_is_said(self):
        lines = [value for name, value in NEAR.lines() if name == "Not compared"]
        assert len(lines) == 1
        assert lines[0].startswith("correlation of med × day, med × hour")
        none = FidelityReport(
            fidelity(PSI, coded(records(), CODING), coding=CODING, numbers=lambda _name: None), CODING
        )
        lines = [value for name, value in none.lines() if name == "Not compared"]
        assert lines == [f"med, day, hour, {NASTY}: the rows have levels in place of numbers"]
        assert "Number" not in rich_text(none)


class TestDocument:
    def test_it_holds_all_figures(self):
        document = json.loads(json.dumps(FAR.document(), allow_nan=False))
        assert document["unseen"] == FAR.unseen
        figures = document["numbers"]["figures"]
        assert len(figures) == len(FAR.facts.numbers.figures)
        for entry, one in zip(figures, FAR.facts.numbers.figures, strict=True):
            assert (entry["statistic"], entry["known"], entry["rows"]) == (
                one.statistic,
                one.known,
                one.rows,
            )
            assert entry["beyond_chance"] is one.beyond_chance

    def test_a_schema_without_steps_has_the_document_of_before(self):
        coding = Coding((Attribute("g", Labels(("a", "b"))), Attribute("h", Labels(("c", "d")))))
        values = {"g": np.array([0, 1, 1]), "h": np.array([0, 0, 1])}
        psi = psi_of(values, [("g", "h")], coding=coding)
        facts = fidelity(psi, coded(values, coding), coding=coding, numbers=values.get)
        assert not {"numbers", "unseen"} & FidelityReport(facts, coding).document().keys()


@pytest.fixture(scope="module")
def utility():
    rows, others = records(seed=2), records(seed=3)
    table = compare_with_records(CODING, CODING.domain.attributes, rows.get, others.get)
    return utility_report(
        coded(rows, CODING), coded(others, CODING), CODING,
        rng=np.random.default_rng(1), about=f"of {NASTY}", numbers=table,
    )  # fmt: skip


class TestPages:
    def test_fidelity_has_a_table_and_a_figure_of_numbers(self):
        page = Page(FAR.html)
        labels = [attributes["aria-label"] for tag, attributes in page.elements if tag == "svg"]
        assert len(labels) == 2
        assert labels[0].startswith("Differences of numbers: ")
        assert "<script" not in FAR.html
        assert report(records(seed=2)).html == NEAR.html

    def test_utility_has_them_too(self, utility):
        page = Page(utility.html)
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
        assert [tag for tag, _ in page.elements].count("svg") == 1
        assert all(a["scope"] in {"row", "col"} for tag, a in page.elements if tag == "th")
        assert NASTY in text_of(utility.html)
        for words in ("In the records", "sd, days", "share of 0", "S_pMSE"):
            assert words in text_of(utility.html)
        assert "No figure of a number differs" in dict(utility.lines())["Numbers"]
        assert "In the records" in rich_text(utility)
        document = json.loads(json.dumps(utility.document(), allow_nan=False))
        assert {one["source"] for one in document["numbers"]["figures"]} == {"records"}

    def test_without_numbers_utility_says_nothing_of_them(self, utility):
        without = replace(utility, numbers=None)
        assert "numbers" not in without.document()
        assert "svg" not in {tag for tag, _ in Page(without.html).elements}

    def test_the_report_of_a_card_has_the_table_and_figure_of_fidelity(self):
        one = card_report(FAR)
        assert one.lines()[: len(FAR.unseen)] == FAR.lines()[: len(FAR.unseen)]
        assert all(text_of(one.html).count(words) == 1 for words in FAR.unseen)
        page, own = Page(one.html), Page(FAR.html)
        rows, drawn = (
            [attributes for tag, attributes in each.elements if tag in ("svg", "tr")]
            for each in (page, own)
        )
        figures = [each for each in drawn if "aria-label" in each and "numbers" in each["aria-label"]]
        assert len(figures) == 1
        assert figures[0] in rows
        for line in FAR.numbers.lines(300):
            for cell in line:
                assert cell.removesuffix(" !") in text_of(one.html)
                assert cell in rich_text(one) or NASTY in cell
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert ids.index("fidelity-group") < ids.index("numbers") < ids.index("risk-group")
        assert "numbers" not in card_report(FAR, coding=None).html.partition("<main>")[2].split('id="')
        assert card_report(FAR, findings={}).numbers is None

    @pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
    def test_a_browser_draws_them(self, utility, tmp_path):
        for name, one in (("fidelity", FAR), ("utility", utility), ("report", card_report(FAR))):
            one.save_html(tmp_path / f"{name}.html")
            picture = tmp_path / f"{name}.png"
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,2400"]
            profile = f"--user-data-dir={tmp_path}/profile"
            subprocess.run(
                [
                    "chromium",
                    *options,
                    profile,
                    f"--screenshot={picture}",
                    f"file://{tmp_path}/{name}.html",
                ],
                check=True,
                timeout=240,
                capture_output=True,
            )
            assert re.match(rb"\x89PNG", picture.read_bytes())


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
class TestFiles:
    def test_numbers_come_back(self, name, tmp_path):
        rows = records(size=300)
        write_rows(coded(rows, CODING), CODING, tmp_path / name, Given(rows))
        read = read_numbered(tmp_path / name, CODING, CODING.domain)
        assert read.dataset.digest() == coded(rows, CODING).digest()
        for attribute in NUMBERS:
            np.testing.assert_array_equal(read.numbers(attribute), rows[attribute])
        assert read.numbers("g") is None

    def test_drawn_numbers_are_those_of_the_frame(self, name, tmp_path):
        dataset = coded(records(size=300), CODING)
        write_rows(dataset, CODING, tmp_path / name, Numbers(3))
        read = read_numbered(tmp_path / name, CODING, CODING.domain)
        frame = rows_of_frame(frame_of(dataset, CODING, Numbers(3)), CODING, CODING.domain)
        for attribute in NUMBERS:
            np.testing.assert_array_equal(read.numbers(attribute), frame.numbers(attribute))

    def test_a_file_of_levels_has_numbers_only_where_each_level_is_one(self, name, tmp_path):
        coding = Coding((scaled("k", "1", "0 1 2 2", missing=True), scaled("x", "1", "0 1 9")))
        values = {"k": np.array([0.0, 2, np.nan, 1]), "x": np.array([0.0, 4, 9, 0])}
        dataset = coded(values, coding)
        write_rows(dataset, coding, tmp_path / name)
        read = read_numbered(tmp_path / name, coding, coding.domain)
        np.testing.assert_array_equal(read.numbers("k"), values["k"])
        assert read.numbers("x") is None
        frame = rows_of_frame(frame_of(dataset, coding), coding, coding.domain)
        np.testing.assert_array_equal(frame.numbers("k"), values["k"])
        assert frame.numbers("x") is None
        write_rows(dataset.take(np.array([0, 3])), coding, tmp_path / name)
        zeros = read_numbered(tmp_path / name, coding, coding.domain)
        assert zeros.numbers("x").tolist() == [0, 0]  # a level of one number

    def test_midpoints_are_numbers(self, name, tmp_path):
        dataset = coded(records(size=300), CODING)
        write_rows(dataset, CODING, tmp_path / name, Midpoints())
        read = read_numbered(tmp_path / name, CODING, CODING.domain)
        assert {*np.unique(read.numbers("med"))} <= {0.0, 50.0, 50.01, 2550.0}

    def test_the_shell_compares_two_files(self, name, tmp_path, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        rows, others = records(size=300, seed=2), records(size=300, seed=3)
        paths = [tmp_path / name, tmp_path / f"records-{name}", tmp_path / "schema.json"]
        for path, one in zip(paths, (rows, others), strict=False):
            write_rows(coded(one, CODING), CODING, path, Given(one))
        paths[2].write_bytes(json_bytes(coding_document(CODING)))
        page = tmp_path / "utility.html"
        words = ["utility", *map(str, paths[:2]), "--schema", str(paths[2]), "--html", str(page)]
        shown = CliRunner().invoke(app, words)
        assert shown.exit_code == 0, shown.output
        assert "In the records" in shown.stdout
        assert page.read_text().startswith("<!doctype html>")
        told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
        (mean,) = [
            one
            for one in told["numbers"]["figures"]
            if (one["attributes"], one["statistic"]) == (["med"], "mean")
        ]
        assert mean["rows"] == pytest.approx(rows["med"].mean())
        assert mean["known"] == pytest.approx(others["med"].mean())
