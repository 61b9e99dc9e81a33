"""Display of objects, and the cost of an import."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.panel import Panel

import gencard.client
from gencard.client import all_marginals, card_view, histogram, mean, total
from gencard.client.card_view import NEXT
from gencard.client.catalogue import _HEADS, CatalogueEntry, ShownPolicy
from gencard.client.common.display import Diff, Entries, Listed, notebook_bar
from gencard.client.shell.connecting import _document
from gencard.client.shell.terminal import moment_said
from gencard.client.steward_views import WIDEST_MAP, together_grid
from gencard.client.terms import phi_of, weights_of
from gencard.core import errors
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState
from gencard.core.catalogue import DeclaredAttribute
from gencard.core.coding import Attribute, Derivation, Edges, Labels, Reading
from gencard.core.domain import Domain
from gencard.core.scale import Scale
from gencard.wire.steward import Together
from tests.client.fake_world import CODING
from tests.client.test_report import Page, text_of

DAYS = Edges.of_scale((Decimal(0),), Scale(Decimal(1), (Decimal(0), Decimal(9))), dates=True)
"""Dates of a schema with a step."""

TIMES = Edges.of_scale((Decimal(0),), Scale(Decimal(1), (Decimal(0), Decimal(1440)), times=True))

SINGLES = all_marginals(1).cliques(CODING.domain)


def rich_text(shown):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(shown)
    return captured.get()


class TestNotebook:
    def test_a_card_shows_state_turn_price_and_next_step(self, offered):
        text = text_of(offered._repr_html_())
        for words in (
            "offered",
            "analyst",
            "12 exact statistics",
            "accept()",
            "ORDER_TOO_HIGH",
            "<how>",
        ):
            assert words in text
            assert words in rich_text(offered)
        assert "offered; accept()" in repr(offered)

    def test_a_long_diff_is_cut_and_that_is_said(self, ana, world, monkeypatch):
        monkeypatch.setattr(card_view, "_MOST_CHANGES", 4)
        world.richest = 1
        card = ana.propose("survey", [*all_marginals(2).cliques(CODING.domain), *SINGLES], purpose="?")
        assert len(card.changes) == 6
        assert "and 2 more" in text_of(card._repr_html_())
        assert "and 2 more" in rich_text(card)

    def test_an_entry_of_a_list_claims_no_policy(self, ana):
        entry, whole = ana.datasets()[0], ana.dataset("survey")
        for shown in (text_of(entry._repr_html_()), rich_text(entry)):
            assert f'dataset("{entry.id}")' in shown
            assert "at most" not in shown
        assert "at most" in rich_text(whole)
        assert (entry.records, whole.records) == (None, 2_000)
        assert "not declared" in rich_text(entry)

    @pytest.mark.parametrize(
        ("coding", "others", "type_", "missing"),
        [
            (Edges((0, 1), decimals=0), {}, "integer", ""),
            (Edges((0, 1), decimals=2), {}, "decimal, 2 places", ""),
            (Edges((0, 1), missing=True), {}, "decimal", "empty"),
            (Edges((0, 1), decimals=0, dates=True), {}, "date", ""),
            (DAYS, {"zone": "Asia/Tokyo"}, "date in Asia/Tokyo", ""),
            (
                Edges.of_scale(
                    (Decimal(0),), Scale(Decimal(1), (Decimal(0), Decimal(1440)), times=True)
                ),
                {"zone": "Asia/Tokyo", "time_of": "left"},
                "time of day of left in Asia/Tokyo",
                "",
            ),
            (
                Edges((0, 99), True, 0),
                {"age_at": date(2020, 1, 1)},
                "integer, age on 2020-01-01",
                "empty",
            ),
            (Labels(("false", "true"), boolean=True), {}, "boolean", ""),
            (
                Labels(("a", "b"), ordered=True, missing=True),
                {"absent": ("NA",)},
                "ordered",
                "empty, NA",
            ),
            (Labels(("1", "2"), integer=True), {}, "nominal", ""),
            (Labels(("a", "z")), {"other": "z"}, "nominal, others are 'z'", ""),
        ],
    )
    def test_types_and_missing_values_in_words(self, coding, others, type_, missing):
        entry = DeclaredAttribute(Attribute("a", coding), Reading(**others))
        assert (entry.type, entry.missing) == (type_, missing)

    def test_how_values_are_read_is_json(self):
        reading = Reading(("-9",), date(2020, 1, 1), "z", "Asia/Tokyo", "left")
        attribute = Attribute("a", Labels(("a", "z")))
        declared = (
            DeclaredAttribute(attribute, reading, {"all": ("a", "z")}),
            DeclaredAttribute(replace(attribute, name="b")),
        )
        entry = CatalogueEntry(
            "datasets/d", "D", "", "sam", "ab", declared, policy=ShownPolicy(1, 1, 1, 1, (), Price(1))
        )
        document = json.loads(json.dumps(_document(entry)))
        assert document["readings"] == {
            "a": {
                "absent": ["-9"],
                "ageAt": "2020-01-01",
                "other": "z",
                "zone": "Asia/Tokyo",
                "timeOf": "left",
                "groups": {"all": ["a", "z"]},
            }
        }

    def test_what_is_not_declared_of_dates_is_said(self):
        """Dates with a step and no zone have neither a zone nor a time of day."""
        zone = Reading(zone="Asia/Tokyo")
        earlier = Edges((0, 1), decimals=0, dates=True)
        cut = Attribute("cut", earlier, derivation=Derivation(("came",), (0,)))
        attributes = [
            DeclaredAttribute(Attribute("left", DAYS), zone),
            DeclaredAttribute(Attribute("back", DAYS), zone),
            DeclaredAttribute(Attribute("hour", TIMES), replace(zone, time_of="left")),
            DeclaredAttribute(Attribute("day", DAYS)),
        ]
        entry = CatalogueEntry("datasets/d", "D", "", "sam", "ab", tuple(attributes))
        assert entry.not_declared == "time of day of back"
        assert dict(entry.lines())["Not declared"] == entry.not_declared
        old = [DeclaredAttribute(Attribute("came", earlier)), DeclaredAttribute(cut)]
        entry = replace(entry, attributes=(*attributes, *old))
        words = "time of day of back, came; zone of came, which is read in UTC"
        assert entry.not_declared == words
        assert "Not declared" not in dict(replace(entry, attributes=(attributes[3],)).lines())

    def test_somebody_connected_says_who(self, ana):
        assert "/analyst/ana at localhost:" in repr(ana)

    def test_what_came_from_outside_is_escaped(self, ana):
        entry = ana.dataset("survey")
        page = Page(entry._repr_html_())
        assert not {"b", "i"} & {tag for tag, _ in page.elements}
        assert "<b>A survey</b>" in "".join(page.text)
        assert "Of <i>people</i>." in rich_text(entry)

    def test_releases_budgets_and_replays(self, ana, agreed):
        release = agreed.release(30, seed=2)
        for shown in (release, ana.budget("survey")):
            assert Page(shown._repr_html_()).text
            assert "╭" in rich_text(shown)
        assert release.receipt.rows_digest in text_of(release._repr_html_())
        assert "Every byte agrees" in text_of(agreed.replay(release)._repr_html_())

    def test_every_state_has_a_next_step(self):
        assert set(NEXT) == set(CardState)

    @pytest.mark.parametrize(
        ("price", "text"), [(Price(), "nothing"), (Price(1_234), "1,234 exact statistics")]
    )
    def test_prices(self, price, text):
        assert str(price) == text


class TestWorkload:
    DOMAIN = Domain.of({"a": 2, "b": 2, "c": 2})

    def test_all_marginals(self):
        assert all_marginals(2).cliques(self.DOMAIN) == (("a", "b"), ("a", "c"), ("b", "c"))
        assert all_marginals(1, ["c", "a"]).cliques(self.DOMAIN) == (("a",), ("c",))
        assert phi_of([("c", "a"), "b"], self.DOMAIN) == ((("c", "a"), ("b",)), (), (), ())
        mixed = [mean("a"), all_marginals(3), "b"]
        assert phi_of(mixed, self.DOMAIN) == ((("a", "b", "c"), ("b",)), (mean("a"),), (), ())

    def test_histograms_and_sums_are_apart_in_python_and_in_the_shell(self):
        numbers = [histogram("a"), total("b", by=["c"]), total("a", "b")]
        phi = phi_of(["c", *numbers], self.DOMAIN)
        assert (phi.histograms, phi.sums) == (("a",), tuple(numbers[1:]))
        weights = dict(zip(["c", *numbers], (2, 3, 4, 5), strict=True))
        assert weights_of({"weights": weights}, phi) == (2, 3, 4, 5)
        assert [*map(moment_said, ("histogram=a", "sum=b:c", "sum=a*b"))] == numbers

    @pytest.mark.parametrize("order", [0, 4, -1])
    def test_an_order_that_is_none(self, order):
        with pytest.raises(errors.InvalidNumberError):
            all_marginals(order).cliques(self.DOMAIN)

    def test_an_attribute_that_is_none(self):
        with pytest.raises(errors.UnknownAttributeError):
            all_marginals(2, ["a", "x"]).cliques(self.DOMAIN)


HEAVY = ("gencard.controller", "formulaic", "matplotlib", "jinja2", "scipy.stats", "pandas", "pyarrow")


@pytest.mark.parametrize(
    "what", ["from gencard.client import Analyst", "import gencard.client.shell.main"]
)
def test_an_import_is_light(what):
    code = f"import sys\n{what}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_names_are_where_they_are_said_to_be():
    for name in gencard.client.__all__:
        assert getattr(gencard.client, name).__name__ == name
    with pytest.raises(AttributeError):
        _ = gencard.client.Analist


def printed(part, width=80):
    """The lines of a part in a terminal of this width, in a panel as results have it."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(Panel(part.rich(), expand=False))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return [line.strip("│╭╰─╮╯ ") for line in lines]


class TestEightyColumns:
    """A terminal of usual width breaks no interval, code or name, however many attributes there are."""

    @pytest.mark.parametrize("attributes", [1, 15, 100])
    def test_levels_of_a_dataset(self, attributes):
        days = Edges(tuple(range(9_131, 11_000, 365)), decimals=0, dates=True)
        labels = Labels(("a long label of several words", "another one"), missing=True)
        declared = [
            DeclaredAttribute(Attribute(f"attribute_{k}", days if k % 2 else labels, f"About {k}."))
            for k in range(attributes)
        ]
        entry = CatalogueEntry("datasets/d", "D", "", "sam", "ab", tuple(declared))
        lines = printed(Entries(_HEADS, entry.levels()))
        for one in declared:
            names = one.attribute.coding.level_names[:8]
            assert all(any(name in line for line in lines) for name in (one.name, *names))
        if attributes > 1:
            assert "attribute_1  date, 5 levels" in " ".join(lines)

    @pytest.mark.parametrize("attributes", [1, 8, WIDEST_MAP])
    def test_attributes_beside_attributes(self, attributes):
        names = tuple(f"attribute_{k}" for k in range(attributes))
        square = tuple(tuple(row >= column for column in range(attributes)) for row in range(attributes))
        lines = printed(together_grid(Together(names, square, square, ())))
        assert [name for name in names if not any(name in line for line in lines)] == []
        assert max(line.count("*") for line in lines) == attributes

    def test_changes(self):
        code = "TWO_STEWARDS_REQUIRED"
        long = "; ".join(f"attribute_{k}, attribute_{k + 1}" for k in range(20))
        lines = printed(Diff(("What", "Was", "Is", "Why"), [("marginals", long, long, code)]))
        assert any(code in line for line in lines)
        assert any("marginals" in line for line in lines)


class TestTables:
    def test_lists_are_tables_in_notebooks_and_terminals(self, ana, agreed):
        lists = {"Card": ana.cards(), "Generator": ana.generators(), "Dataset": ana.datasets()}
        for head, listed in lists.items():
            assert isinstance(listed, list)
            assert repr(listed).splitlines()[0].startswith(head)
            assert len(repr(listed).splitlines()) == len(listed) + 1
            assert "<table" in listed._repr_html_()
            assert head in rich_text(listed)
        assert agreed.name in repr(lists["Card"])
        assert repr(ana.spends()) in ("<Spending: none>", repr(ana.spends()))

    def test_cells_cannot_break_a_table(self):
        listed = Listed(["a\nb\x1b[31m", "<b>" * 50], "Odd", ("Cell",), lambda one: (one,))
        assert len(repr(listed).splitlines()) == 3
        assert "\x1b" not in repr(listed)
        assert "<b>" not in listed._repr_html_()

    def test_each_object_says_in_a_line_what_it_is(self, ana, agreed):
        release = agreed.release(30, progress=False)
        shown = [release, ana.budget("survey"), ana.dataset("survey").policy, agreed.price]
        shown += [*ana.generators(), agreed.fidelity(release), *ana.datasets(), *ana.cards()]
        for one in shown:
            assert repr(one).startswith("<")
            assert "\n" not in repr(one)
            assert len(repr(one)) < 1_500
            assert one._repr_html_()

    def test_progress_in_a_notebook_needs_no_widgets(self, monkeypatch):
        pages = []
        handle = SimpleNamespace(update=pages.append)
        module = SimpleNamespace(HTML=str, display=lambda page, display_id: pages.append(page) or handle)
        monkeypatch.setitem(sys.modules, "IPython.display", module)
        with notebook_bar("Generating") as report:
            report("fit <b>", 0.5)
        assert pages[0].startswith("Generating <progress")
        assert 'value="0.500"' in pages[1]
        assert "<b>" not in pages[1]
        assert pages[2] == ""
