"""The page of a report: what it says first, that it is self-contained, and how it looks."""

import builtins
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from matplotlib.image import imread

from gencard.client.audit import Report
from gencard.core import errors
from gencard.core.audit.exploration import BlockEvidence
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import (
    LEVEL_SHARES,
    AuditReport,
    Check,
    CheckResult,
    Effect,
    PairProof,
    PlantedEvidence,
    PlantedRuns,
    UniquesEvidence,
    Verdict,
)
from gencard.core.card.terms import AuditTerms
from gencard.core.domain import Domain

NASTY = '<script>alert("x")</script> & $y$'
DOMAIN = Domain.of({"age": 8, "sex": 2, NASTY: 3, "health": 5})
PAIRS = (("age", "sex"), ("age", "health"), (NASTY, "sex"))
VOID = {"meta", "use", "br", "path"}


def report(p_value=0.4, blocks=3, spread=0.01):
    sizes = [("age", "sex", "health"), ("age", NASTY), ("sex", NASTY, "health")]
    names = [sizes[i % 3] if i < 3 else (f"a{i}", f"b{i}") for i in range(blocks)]
    leak = p_value < 0.01
    return AuditReport(
        plan=AuditPlan(PAIRS, 1_000, 7, AuditTerms(runs=5)),
        domain=DOMAIN,
        records=50_000,
        checks=tuple(CheckResult(check, LEVEL_SHARES[check], p_value) for check in Check),
        effect=Effect(names[0], 0.31 if leak else -0.002, 0.29, 0.33, 0.017),
        blocks=tuple(
            BlockEvidence(name, 28, (200.0 if leak else 2.0) / (i + 1), 0.3, 1.0, p_value)
            for i, name in enumerate(names)
        ),
        tested=(names[0],),
        g_low=tuple(-1 + spread * i for i in range(5)),
        g_high=tuple((1 if leak else -1) + spread * i for i in range(5)),
        g_original=tuple(spread * i for i in range(5)),
        pairs=(PairProof(1, "ab" * 32, "ab" * 32, "ab" * 32, 12_345),),
        versions=(("gencard", "0.1.0"),),
        seconds=12.3,
        planted=PlantedEvidence(
            20, 40, 31, PlantedRuns((9,) * 5, (2, 3, 1, 2, 4)), PlantedRuns((8,) * 5, (2,) * 5), 12, 70
        ),
        uniques=UniquesEvidence(90, (7, 8, 6, 9, 7), (5,) * 10, 30),
        recognised=0.11,
    )


LEAKY = Report(report(1e-12), "datasets/survey/cards/1", "smuggler", "card")
HONEST = Report(report(0.4), "datasets/survey/cards/1", "ipf", "made-up")


class Page(HTMLParser):
    """Refuses elements that do not nest; collects elements and text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.text = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def first(self, tag):
        return next(attributes for name, attributes in self.elements if name == tag)


def text_of(html):
    return re.sub(r"\s+", " ", " ".join(Page(html).text))


class TestWords:
    def test_the_verdict_comes_first(self):
        text = text_of(LEAKY.html)
        assert LEAKY.facts.verdict is Verdict.LEAKAGE
        assert text.index("Evidence of leakage") < text.index("What this does not prove")
        assert (
            "reproduce 31 % (95 % confidence interval 29 % to 33 %) of the inputs' difference in it"
            in text
        )
        assert "the real records, at the controller" in text

    def test_an_earlier_verdict_stands_above_this_one(self):
        text = text_of(replace(HONEST, note="Evidence of leakage in an earlier audit.").html)
        assert text.index("earlier audit") < text.index("This is no proof")

    def test_s32_a_pass_is_never_called_safe(self):
        text = text_of(HONEST.html)
        assert "No evidence of leakage" in text
        assert "This is no proof that there is none" in text
        assert "Of a difference spread over the data, 1.7 % would have been found" in text
        assert "Of unique records, copying one in 12 would have been found" in text
        assert "copying one in 30 of its unique records would have been found" in text
        assert "not a proof of safety" in text
        assert not re.search(r"\bis safe\b|\bpassed\b", text)

    def test_everything_is_there(self):
        text = text_of(HONEST.html)
        for words in (
            "ab" * 32,
            "12,345",
            "50,000",
            "number 1, at level 0.025",
            "gencard 0.1.0",
            "12.3 s",
        ):
            assert words in text
        for check in Check:
            assert f"({check.value})" in text

    def test_the_search_and_the_confirmation_are_named_where_their_numbers_stand(self):
        text = text_of(HONEST.html)
        assert "In fresh runs (step 2) the outputs reproduce" in text
        assert "Reproduced in the search" in text

    def test_many_blocks_are_cut_and_that_is_said(self):
        assert "And 10 more" in text_of(Report(report(blocks=50)).html)

    def test_a_box_without_randomness(self):
        assert "g, the outputs" in text_of(Report(report(spread=0.0)).html)


class TestPage:
    @pytest.mark.parametrize("written", [LEAKY, HONEST], ids=["leaky", "honest"])
    def test_it_is_self_contained_and_well_formed(self, written):
        html = written.html
        page = Page(html)
        tags = {tag for tag, _ in page.elements}
        assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
        for _, attributes in page.elements:
            assert not any(name.startswith("on") for name in attributes)
            for name in ("href", "xlink:href", "src"):
                assert attributes.get(name, "#").startswith("#")
        assert "url(http" not in html
        assert "default-src 'none'" in html

    def test_what_came_from_outside_is_escaped(self):
        assert NASTY not in LEAKY.html
        assert "<script" not in LEAKY.html
        assert NASTY in text_of(LEAKY.html)

    def test_it_can_be_read_without_seeing_it(self):
        page = Page(LEAKY.html)
        assert page.first("html")["lang"] == "en"
        figures = [attributes for tag, attributes in page.elements if tag == "svg"]
        assert all(figure["role"] == "img" and figure["aria-label"] for figure in figures)
        levels = [tag for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == "h1"
        assert set(levels[1:]) == {"h2"}
        assert all(a["scope"] in {"row", "col"} for tag, a in page.elements if tag == "th")
        ids = [a["id"] for _, a in page.elements if "id" in a]
        assert len(ids) == len(set(ids))

    def test_the_same_report_is_the_same_page(self):
        assert Report(report(1e-12), "datasets/survey/cards/1", "smuggler", "card").html == LEAKY.html

    def test_a_notebook_shows_it_in_a_frame_of_its_own(self):
        frame = Page(LEAKY._repr_html_()).first("iframe")
        assert frame["srcdoc"] == LEAKY.html
        assert "sandbox" in frame

    def test_without_the_extra(self, monkeypatch):
        real = builtins.__import__

        def absent(name, *args, **kwargs):
            if name.partition(".")[0] in {"jinja2", "matplotlib"}:
                raise ModuleNotFoundError(name)
            return real(name, *args, **kwargs)

        for module in list(sys.modules):
            if module.startswith(("gencard.client.findings.", "gencard.client.pages")):
                monkeypatch.delitem(sys.modules, module)
        monkeypatch.setattr(builtins, "__import__", absent)
        with pytest.raises(errors.InvalidInputError, match=r"pip install 'gencard\[report\]'"):
            _ = Report(report()).html


class TestJson:
    def test_a_file_that_is_none(self, tmp_path):
        with pytest.raises(errors.InvalidInputError):
            Report.of_json(tmp_path / "absent.json")
        (tmp_path / "a.json").write_text('{"format": "else"}')
        with pytest.raises(errors.InvalidInputError):
            Report.of_json(tmp_path / "a.json")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_it(tmp_path):
    LEAKY.save_html(tmp_path / "report.html")
    picture = tmp_path / "report.png"
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1000,2400",
    ]
    command = ["chromium", *options, f"--user-data-dir={tmp_path}/profile", f"--screenshot={picture}"]
    subprocess.run(
        [*command, f"file://{tmp_path}/report.html"], check=True, timeout=240, capture_output=True
    )

    pixels = imread(picture)[:, :, :3]
    assert pixels.shape[:2] == (2400, 1000)
    band, body = pixels[5, 500], pixels[1_000, 20]
    assert band[0] > band[2] + 0.02  # the band of a leak is reddish
    assert body.min() > 0.95
    colours = pixels[:1_200].reshape(-1, 3)
    for low_or_high in ([0xB3, 0x54, 0x1E], [0x1F, 0x5F, 0xA8]):
        wanted = [part / 255 for part in low_or_high]
        assert (abs(colours - wanted).max(axis=1) < 0.05).sum() > 50
