"""Fidelity as an analyst meets it: on cards, in views, as page and JSON, from the shell."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from gencard.client.common.display import named, percent
from gencard.client.findings.fidelity import FIDELITY_FORMAT, FidelityReport
from gencard.client.shell.main import app
from gencard.core import errors
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi
from gencard.measures.utility.fidelity import fidelity
from gencard.wire.canonical import json_bytes
from tests.client.fake_world import CODING, RECORDS
from tests.client.test_report import NASTY, Page, text_of
from tests.client.test_views import rich_text

TWO = Labels(("no", NASTY))
NASTY_CODING = Coding((Attribute("a", TWO), Attribute(NASTY, TWO), Attribute("c", TWO)))


def reported(shift=0, stddev=0.0):
    """Rows beside psi; ``shift`` of 1,000 rows have their first attribute set."""
    rng = np.random.default_rng(2)
    original, codes = (rng.integers(0, 2, (rows, 3)) for rows in (5_000, 1_000))
    codes[:shift, 0] = 1
    exact = measure_dataset(Dataset(NASTY_CODING.domain, original), [("a", NASTY), (NASTY, "c")])
    psi = Psi(exact.domain, tuple(Measurement(m.clique, m.values, stddev) for m in exact.measurements))
    return FidelityReport(fidelity(psi, Dataset(psi.domain, codes)), NASTY_CODING, f"from {NASTY}")


NEAR, FAR = reported(), reported(shift=400)


@pytest.fixture
def run(people, connection_toml, monkeypatch):
    monkeypatch.setenv("GENCARD_CONNECTION", str(people / "ana"))
    monkeypatch.setenv("COLUMNS", "220")
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


class TestCard:
    def test_a_release_and_its_frame_say_the_same(self, agreed):
        release = agreed.release(3_000, seed=2, progress=False)
        found = agreed.fidelity(release)
        assert found.facts == agreed.fidelity(release.frame.sample(frac=1, random_state=1)).facts
        assert found.facts.marginals == fidelity(agreed.psi, release.dataset).marginals
        assert found.facts.unexplained == ()
        assert release.name in found.about
        assert "match psi within sampling error" in found.wording

    def test_rows_that_were_changed(self, agreed):
        frame = agreed.generate(3_000, progress=False)
        found = agreed.fidelity(frame.assign(sex="male"))
        assert [one.clique for one in found.facts.unexplained] == [("sex", "health")]
        assert found.ordered()[0].clique == ("sex", "health")
        assert "1 of 2 marginals differ" in found.wording
        assert {"female", "male"} >= {
            found.levels(("sex", "health"), c)[0] for c in found.ordered()[0].worst
        }

    def test_other_rows(self, agreed):
        frame = agreed.generate(10, progress=False)
        with pytest.raises(errors.DomainMismatchError):
            agreed.fidelity(frame.drop(columns="sex"))
        with pytest.raises(errors.UndeclaredLevelError):
            agreed.fidelity(frame.assign(sex="other"))

    def test_before_agreement(self, offered):
        with pytest.raises(errors.CardStateError):
            offered.fidelity(RECORDS)


class TestViews:
    @pytest.mark.parametrize("shown", [lambda found: text_of(found._repr_html_()), rich_text])
    def test_what_is_noise_is_told(self, shown):
        text = shown(FAR)
        largest = FAR.facts.largest
        for words in (
            "1 of 2 marginals differ from psi by more than sampling error",
            f"{percent(largest.total_variation)} !",
            percent(largest.expected),
            percent(largest.bound),
            "1,000",
            NASTY,
        ):
            assert words in text
        assert " !" not in shown(NEAR)
        assert "Noise in psi" not in text
        assert "at most ±25 records" in shown(reported(stddev=25.0))

    def test_many_marginals_are_cut_and_that_is_said(self):
        many = replace(FAR, facts=replace(FAR.facts, marginals=FAR.facts.marginals * 15))
        assert "and 10 more" in rich_text(many)
        assert len(many.document()["marginals"]) == 30

    def test_nothing_differs(self):
        psi = measure_dataset(RECORDS, [("sex",)])
        same = FidelityReport(fidelity(psi, RECORDS.project(("sex",))), CODING)
        assert "none differs" in rich_text(same)
        assert "0 %" in text_of(same.html)


class TestPage:
    @pytest.mark.parametrize("html", [NEAR.html, FAR.html], ids=["near", "far"])
    def test_it_is_self_contained_and_can_be_read_without_seeing_it(self, html):
        page = Page(html)
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
        assert "url(http" not in html
        assert "default-src 'none'" in html
        (figure,) = [attributes for tag, attributes in page.elements if tag == "svg"]
        assert "expected" in figure["aria-label"]
        assert all(a["scope"] in {"row", "col"} for tag, a in page.elements if tag == "th")
        assert page.first("html")["lang"] == "en"

    def test_what_came_from_outside_is_escaped(self):
        assert "<script" not in FAR.html
        assert NASTY in text_of(FAR.html)

    def test_every_number_has_its_unit(self):
        largest = FAR.facts.largest
        text = text_of(FAR.html)
        for share in (largest.total_variation, largest.expected, largest.bound, largest.worst[0].target):
            assert percent(share) in text
        assert f"± {percent(largest.worst[0].stderr)}" in text
        assert "% of the rows" in FAR.html

    def test_the_same_rows_give_the_same_page(self):
        assert reported(shift=400).html == FAR.html


class TestJson:
    def test_it_holds_everything(self, tmp_path):
        FAR.save_json(tmp_path / "a.json")
        document = json.loads((tmp_path / "a.json").read_text())
        assert document == json.loads(json.dumps(FAR.document()))
        assert document["format"] == FIDELITY_FORMAT
        assert document["rows"] == 1_000
        for entry, found in zip(document["marginals"], FAR.facts.marginals, strict=True):
            assert tuple(entry["clique"]) == found.clique
            assert entry["total_variation"] == found.total_variation
            assert entry["beyond_chance"] is found.beyond_chance
            assert [cell["released"] for cell in entry["worst"]] == [c.released for c in found.worst]
            assert all(set(cell["levels"]) <= {"no", NASTY} for cell in entry["worst"])


class TestShell:
    @pytest.fixture
    def kept(self, agreed, tmp_path):
        return agreed.release(500, seed=3, progress=False).save(tmp_path / "kept")

    def test_a_folder_offline(self, run, kept, world, tmp_path):
        calls = world.faults.calls.total()
        page, report = tmp_path / "a.html", tmp_path / "a.json"
        shown = run("fidelity", kept, "--html", page, "--report", report)
        assert shown.exit_code == 0, shown.output
        assert "match psi within sampling error" in shown.stdout
        assert "sex × health" in shown.stdout
        assert page.read_text().startswith("<!doctype html>")
        told = json.loads(run("fidelity", kept, "--json").stdout)
        assert told == json.loads(report.read_text())
        assert world.faults.calls.total() == calls

    def test_a_card_and_its_newest_release(self, run, agreed, kept):
        agreed.release(700, seed=4, progress=False)
        told = json.loads(run("fidelity", agreed.name, "--json").stdout)
        assert told["rows"] == 700
        given = run("fidelity", agreed.name, "--data", kept / "rows.parquet", "--json")
        assert json.loads(given.stdout)["rows"] == 500

    def test_a_card_without_a_release(self, run, agreed):
        shown = run("fidelity", agreed.name)
        assert shown.exit_code == 1
        assert "no release yet" in shown.stderr

    def test_files_that_do_not_belong_together(self, run, kept):
        domain = Domain.of({"sex": 3})
        psi = json.loads((kept / "psi.json").read_text())
        psi["attributes"], psi["sizes"] = list(domain.attributes), ["3"]
        psi["measurements"] = [{"clique": ["sex"], "counts": ["1", "2", "3"], "stddev": "0"}]
        (kept / "psi.json").write_bytes(json_bytes(psi))
        shown = run("fidelity", kept)
        assert shown.exit_code == 1
        assert "DOMAIN_MISMATCH" in shown.stderr

    def test_a_folder_without_rows(self, run, kept):
        (kept / "rows.parquet").unlink()
        assert "rows: not found" in run("fidelity", kept).stderr


def test_words():
    assert named(("a", "b")) == "a × b"
    assert percent(0.5) == "50 %"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_it(tmp_path):
    FAR.save_html(tmp_path / "fidelity.html")
    picture = tmp_path / "fidelity.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1000,1400"]
    command = ["chromium", *options, f"--user-data-dir={tmp_path}/profile", f"--screenshot={picture}"]
    subprocess.run(
        [*command, f"file://{tmp_path}/fidelity.html"], check=True, timeout=240, capture_output=True
    )
    assert re.match(rb"\x89PNG", picture.read_bytes())
