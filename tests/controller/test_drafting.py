"""The folder of a new controller: complete, private, never over anything."""

import re
import stat
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gencard.analysis.formulas.formulas import read_factors
from gencard.analysis.formulas.summing import AnswerRequest
from gencard.controller.base.files import secret_bytes, signing_key
from gencard.controller.drafting import schema_draft
from gencard.controller.drafting.folder import Draft, draft, drafted_schema_text
from gencard.controller.drafting.profiles import Profile, most_decimals
from gencard.controller.drafting.schema_draft import detect, draft_schema
from gencard.controller.drafting.units import drafted_scale
from gencard.controller.people.enrolment import demo_people, read_identities
from gencard.controller.people.keys import read_authority, trust_domain_of
from gencard.controller.records.schema_file import read_schema, schema_of_text
from gencard.controller.records.vault import OpenRecords, Vault
from gencard.controller.settings import Settings
from gencard.core.card.privacy import USUAL_CHECKS, Mechanism, gaussian
from gencard.core.coding import Attribute, Labels, codes_of_numbers
from gencard.core.errors import EmptyDatasetError, InvalidInputError, StorageError
from gencard.core.generators.registry import GENERATORS
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.noise import epsilon_of
from tests.messy_files import MESSY

LEFT_OUT = {
    "german": ("Bemerkung",),
    "american": ("column0", "comment"),
    "births": ("comment", "contact", "postcode", "empty"),
}
"""Columns of messy files besides the identifier."""

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def fair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The survey of the demo."""
    datasets = pytest.importorskip("statsmodels.datasets", reason="needs statsmodels")
    path = tmp_path_factory.mktemp("survey") / "fair.csv"
    datasets.fair.load_pandas().data.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, fair: Path) -> Draft:
    """The folder drafted for the survey: tests read it, and write other settings beside its own."""
    return draft(tmp_path_factory.mktemp("drafted") / "controller", fair, now=NOW)


def csv(folder: Path, **columns) -> Path:
    path = folder / "survey.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def keys_in(folder: Path) -> list[Path]:
    """Files that hold a private key."""
    return [path for path in folder.rglob("*") if path.is_file() and b"PRIVATE" in path.read_bytes()]


class TestFolder:
    def test_what_it_leaves_as_a_comment_can_be_taken_as_it_is(self, made):
        text = made.settings.read_text()
        assert "\n# transform = " in text
        other = made.settings.with_name("with_checks.toml")
        other.write_text(text.replace("\n# transform = ", "\ntransform = "))
        (entry,) = Settings.load(other).datasets
        assert entry.policy.transform == USUAL_CHECKS

    @pytest.mark.parametrize("runs", [0, 3])
    def test_the_runs_that_it_leaves_as_a_comment_give_programs_all_numbers(self, tmp_path, runs):
        """Numbers, dates and times with a step; codes are labels, and each program has them anyway."""
        rng = np.random.default_rng(2)
        days = pd.Timestamp("2013-01-01") + pd.to_timedelta(rng.integers(0, 360, 900), unit="D")
        spent = rng.lognormal(4, 1, 900).round(2)
        path = csv(tmp_path, sex=rng.choice(["f", "m"], 900), spent=spent, day=days.astype(str))
        drafted = draft(tmp_path / "controller", path, now=NOW)
        text = drafted.settings.read_text()
        assert ', columns = ["spent", "day"] }' in text
        text = text.replace("\n# analyses = ", "\nanalyses = ")
        drafted.settings.write_text(text.replace("reviewed_runs = 0", f"reviewed_runs = {runs}"))
        (entry,) = Settings.load(drafted.settings).datasets
        assert entry.policy.analyses.columns == ("spent", "day")
        assert entry.policy.analyses.most.columns == (("day", "spent") if runs else ())
        assert read_schema(entry.schema_file).coding.with_step == ("spent", "day")

    def test_what_nobody_chose_is_safe(self, made):
        """Noise with caps that bind; no exact counts, measures, lending, or box that reads records."""
        settings = Settings.load(made.settings)
        policy, caps = settings.datasets[0].policy, settings.datasets[0].caps
        assert policy.mechanisms == (Mechanism.GAUSSIAN,)
        assert policy.noise == gaussian("0.05", neighbouring="add-remove", delta="1e-6")
        assert (policy.largest_order, policy.largest_order_exact) == (4, 2)
        assert policy.measures == ()
        assert set(policy.generators) <= set(GENERATORS)
        assert settings.lending.black_boxes == ()
        assert epsilon_of(caps.dataset.rho, Decimal("1e-6")) < 6
        assert policy.most_per_card.rho <= caps.analyst.rho < caps.project.rho < caps.dataset.rho
        assert caps.dataset.statistics == policy.most_per_card.statistics
        assert caps.dataset.epsilon == policy.most_per_card.epsilon == 0

    def test_exact_counts_are_one_line_that_the_steward_types(self, made):
        text = made.settings.read_text()
        (line,) = re.findall(r"(?m)^#   (mechanisms = .*)$", text)
        other = made.settings.with_name("exact.toml")
        other.write_text(re.sub(r"(?m)^mechanisms = .*$", line, text))
        entry = Settings.load(other).datasets[0]
        policy = entry.policy
        assert policy.mechanisms == (Mechanism.EXACT, Mechanism.GAUSSIAN)
        assert policy.most_per_card.fits(entry.caps.analyst)

    def test_what_the_draft_says_of_its_budgets_is_so(self, made):
        text = made.settings.read_text()
        told = re.findall(
            r"rho = ([0-9.]+)[ ,\w]*?\s*#?\s*(?:which )?is\s+#?\s*epsilon = ([0-9.]+)", text
        )
        assert len(told) == 2
        for rho, epsilon in told:
            true = epsilon_of(Decimal(rho), Decimal("1e-6"))
            assert true <= Decimal(epsilon) < true + Decimal("0.1")
        assert f"about {round((36 / 0.1) ** 0.5)} records" in text

    def test_it_is_ready_to_serve_the_survey(self, made):
        settings = Settings.load(made.settings)
        (entry,) = settings.datasets
        schema = read_schema(entry.schema_file)
        Vault(entry.data, schema.coding, schema.readings).check()
        assert entry.name == "fair"
        assert not schema.reviewed
        assert [one.name for one in made.columns if one.coding is None] == []
        signing_key(settings.signing.card_key, "card")
        signing_key(settings.signing.log_key, "log")
        assert len(bytes.fromhex(secret_bytes(settings.signing.version_salt, "salt").decode())) == 32
        secret_bytes(settings.server.key, "server.key")

    def test_nobody_has_keys_that_the_controller_made_unless_for_a_demonstration(
        self, tmp_path, fair, made
    ):
        assert made.people == ()
        assert read_identities(made.folder / "identities") == {}
        assert sorted(path.relative_to(made.folder).as_posix() for path in keys_in(made.folder)) == [
            "authority/key.pem",
            "health/key.pem",
            "server/key.pem",
            "signing/card_key.pem",
            "signing/log_key.pem",
        ]
        demo = draft(tmp_path / "demo", fair, now=NOW, demo_people=True)
        people = read_identities(demo.folder / "identities")
        assert sorted(person.identity.name for person in people.values()) == ["ana", "aud", "sam"]
        assert [path.name for path in demo.people] == ["ana", "aud", "sam"]
        assert demo_people(demo.folder) == ("ana", "aud", "sam")
        assert demo_people(made.folder) == ()

    def test_the_authority_may_be_elsewhere(self, tmp_path, fair):
        key = tmp_path / "stick" / "authority.pem"
        made = draft(tmp_path / "controller", fair, now=NOW, authority_key=key)
        assert [path.name for path in (made.folder / "authority").iterdir()] == ["certificate.pem"]
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert trust_domain_of(read_authority(made.folder / "authority", key)) == "gencard.local"
        with pytest.raises(InvalidInputError, match="--authority-key"):
            read_authority(made.folder / "authority")
        with pytest.raises(InvalidInputError, match="overwritten"):
            draft(tmp_path / "second", fair, now=NOW, authority_key=key)
        assert not (tmp_path / "second").exists()

    def test_all_pairs_of_the_survey_fit_the_drafted_policy(self, made):
        entry = Settings.load(made.settings).datasets[0]
        policy = entry.policy
        assert (policy.largest_order, policy.largest_order_exact) == (4, 2)
        assert policy.most_marginals == 45
        assert policy.most_per_card.statistics == 1_019
        assert policy.most_per_card.fits(entry.caps.analyst)

    def test_nobody_else_can_look_into_it(self, made):
        assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
        for key in (*made.folder.rglob("*key.pem"), made.folder / "signing" / "version_salt"):
            assert stat.S_IMODE(key.stat().st_mode) == 0o600

    def test_nothing_is_overwritten(self, fair, made):
        before = made.settings.read_bytes()
        with pytest.raises(InvalidInputError, match="overwritten"):
            draft(made.folder, fair, now=NOW)
        assert made.settings.read_bytes() == before

    def test_an_empty_folder_may_be_filled_and_a_file_may_not_be_replaced(self, tmp_path, fair):
        (tmp_path / "empty").mkdir()
        assert draft(tmp_path / "empty", fair, now=NOW).settings.is_file()
        with pytest.raises(InvalidInputError, match="overwritten"):
            draft(fair, fair, now=NOW)

    def test_a_draft_that_fails_leaves_nothing(self, tmp_path, fair, monkeypatch):
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("gencard.controller.drafting.folder._write_texts", full)
        with pytest.raises(StorageError):
            draft(tmp_path / "controller", fair, now=NOW)
        assert not [*tmp_path.iterdir()]

    def test_the_number_of_records_is_proposed_rounded_and_not_declared(self, tmp_path):
        path = csv(tmp_path, sex=["f", "m"] * 617)
        made = draft(tmp_path / "controller", path, now=NOW)
        assert "\n# records = 1_200  # Rounded" in (made.folder / "schema.toml").read_text()
        assert read_schema(made.folder / "schema.toml").records is None

    def test_a_file_without_records_is_refused_before_anything_is_made(self, tmp_path):
        path = tmp_path / "empty.csv"
        path.write_text("a,b\n")
        with pytest.raises(EmptyDatasetError):
            draft(tmp_path / "controller", path, now=NOW)
        assert not (tmp_path / "controller").exists()

    @pytest.mark.parametrize(
        ("stem", "name"),
        [("Fair 2024", "fair-2024"), ("2024", "data-2024"), ("Ünï", "n"), ("_", "data")],
    )
    def test_the_dataset_is_named_after_the_file(self, tmp_path, stem, name):
        path = csv(tmp_path, sex=["f", "m"] * 4).rename(tmp_path / f"{stem}.csv")
        settings = Settings.load(draft(tmp_path / "controller", path, now=NOW).settings)
        assert settings.datasets[0].name == name


def drafted(path: Path):
    return draft_of(path, path.read_bytes())


@cache
def draft_of(path: Path, content: bytes):
    """Draft once for each content: a test asks several questions about one draft."""
    return draft_schema(path, "t", today=NOW.date())


def coding_of(path: Path, name: str):
    return drafted(path).schema.coding.attribute(name).coding


def keeps_to_it(path: Path) -> bool:
    made = drafted(path)
    Vault(path, made.schema.coding, made.schema.readings, made.format).check()
    return True


class TestSchema:
    def test_few_numbers_become_labels_in_their_order(self, tmp_path):
        path = csv(tmp_path, whole=[10, 9, 10, 9] * 3, half=[2.5, 16.5, 6, 9] * 3)
        assert coding_of(path, "whole") == Labels(("9", "10"), True, ordered=True)
        assert coding_of(path, "half") == Labels(("2.5", "6", "9", "16.5"), ordered=True)
        assert drafted(path).left_out == ()

    def test_many_numbers_become_round_edges(self, tmp_path):
        path = csv(tmp_path, age=np.arange(400) % 61 + 17.5, income=np.geomspace(1, 90_000, 400))
        age, income = coding_of(path, "age"), coding_of(path, "income")
        assert (age.edges, age.decimals) == (tuple(range(0, 81, 10)), 1)
        assert age.scale.cells[:5] == (0, 2, 4, 6, 8)
        assert income.edges == (0, 2, 5, 10, 20, 50, 100, *(200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5))
        assert keeps_to_it(path)

    def test_whole_numbers_come_back_whole_and_amounts_with_cents(self, tmp_path):
        path = csv(tmp_path, age=np.arange(400) % 61, price=(np.arange(400) * 37 % 391) / 100)
        age, price = coding_of(path, "age"), coding_of(path, "price")
        assert (age.edges, age.scale.step) == (tuple(range(0, 61, 10)), 1)
        assert (price.decimals, price.scale.step) == (2, Decimal("0.01"))

    def test_many_zeros_become_a_level_of_their_own(self, tmp_path):
        amounts = [0] * 100 + [round(float(x), 2) for x in np.geomspace(5, 90_000, 200)]
        path = csv(tmp_path, amount=amounts)
        amount = coding_of(path, "amount")
        assert amount.level_names[0] == "0"
        assert amount.edges[:2] == (0, 0.01)
        assert amount.edges[-1] >= 90_000
        assert keeps_to_it(path)

    def test_values_of_many_records_are_levels_or_cells(self, tmp_path):
        hours = [*[40] * 300, *[35] * 60, *[0] * 90, *(np.arange(1500) * 7 % 101)]
        path = csv(tmp_path, hours=hours)
        text = drafted_schema_text(drafted(path))
        for line in ("step = 1", "points = [0, 40]", "fine = 2", 'drafted = "records"'):
            assert f"\n{line}\n" in text
        coding = coding_of(path, "hours")
        assert "40" in coding.level_names
        assert {0, 35, 36} <= {*map(int, coding.scale.cells)}
        assert schema_of_text(text, "t").coding == drafted(path).schema.coding

    def test_numbers_of_too_many_digits_are_rounded_and_it_is_said(self, tmp_path):
        path = csv(tmp_path, amount=np.random.default_rng(3).exponential(5e4, 400))
        (one,) = drafted(path).attributes
        assert one.coding.scale.step == Decimal("0.001")
        assert "Values are rounded to multiples of 0.001." in one.note
        assert keeps_to_it(path)

    def test_missing_values_become_a_level(self, tmp_path):
        path = csv(tmp_path, sex=["f", "m", None, "f"] * 3, age=[*range(10, 21), None])
        coding = drafted(path).schema.coding
        assert coding.attribute("sex").coding.missing
        assert "age" not in coding.domain
        Vault(path, coding).check()

    def test_marks_of_missing_values_are_no_labels(self, tmp_path):
        age = [str(number % 61) for number in range(400)]
        path = csv(tmp_path, age=["NA", "-", *age, None], vote=["yes", "no", "?"] * 134 + ["yes"])
        path.write_text(path.read_text().replace('""', ""))
        made = drafted(path)
        age = coding_of(path, "age")
        assert (age.edges, age.missing, age.decimals) == (tuple(range(0, 61, 10)), True, 0)
        assert made.schema.readings["age"].absent == ("-", "NA")
        assert coding_of(path, "vote") == Labels(("no", "yes"), missing=True)
        assert {one.name: one.marks for one in made.attributes}["vote"] == {"?": 134}
        assert keeps_to_it(path)

    def test_na_among_codes_of_two_letters_is_one(self, tmp_path):
        path = csv(tmp_path, state=["NA", "CA"] * 200)
        path.write_text(path.read_text().replace('""', ""))
        assert coding_of(path, "state").labels == ("CA", "NA")

    @pytest.mark.parametrize(
        ("numbers", "edges"),
        [
            (np.geomspace(200, 900_000, 300).round(), (0, 200, 500, 1_000, 2_000, 5_000, 10_000)),
            ([-90, *np.linspace(100, 700, 300).round(), 2_000], (-200, 0, 200, 400, 600, 800)),
            (
                [*np.linspace(18, 33, 300).round(1), 451],
                (0, 10, 15, 25, 40, 60, 100, 150, 250, 400, 500),
            ),
            ([*range(1_900, 2_021)] * 3, (1_900, 1_920, 1_940, 1_960, 1_980, 2_000, 2_020)),
            (
                [-60, *np.geomspace(20, 90_000, 300).round()],
                (-100, 0, 20, 50, 100, 200, 500, 1_000, 2_000),
            ),
            (
                [*-np.geomspace(20, 900, 100).round(), *np.geomspace(20, 90_000, 300).round()],
                (-1_000, -500, -200, -100, -50, -20, 0, 20, 50, 100),
            ),
            (np.random.default_rng(1).normal(0, 10, 2_000).round(1), (-40, -30, -20, -10, 0, 10)),
        ],
        ids=[
            *("long tail", "negative", "outlier", "far from 0"),
            *("one debt", "debts and gains", "normal about 0"),
        ],
    )
    def test_edges_grow_where_high_values_are_rare(self, tmp_path, numbers, edges):
        path = csv(tmp_path, amount=numbers)
        assert coding_of(path, "amount").edges[: len(edges)] == edges
        assert keeps_to_it(path)

    @pytest.mark.parametrize(
        ("values", "absent"),
        [
            ([1, 2, 3, -9] * 50, ("-9",)),
            ([*range(100, 300), *range(100, 300), -99, -8], ("-8", "-99")),
            ([1, 2, 3, -4] * 50, ()),
            ([1, 2, 3, -4, -9] * 50, ()),
        ],
    )
    def test_negative_codes_among_numbers_from_0_on(self, tmp_path, values, absent):
        path = csv(tmp_path, n=[*values, values[0]])
        reading = drafted(path).schema.readings.get("n")
        assert set(reading.absent if reading else ()) == set(absent)
        assert keeps_to_it(path)

    def test_truth_values(self, tmp_path):
        path = csv(tmp_path, smoker=["TRUE", "False", "true", ""] * 5)
        assert coding_of(path, "smoker") == Labels(("false", "true"), missing=True, boolean=True)
        assert keeps_to_it(path)

    def test_dates_become_periods_and_dates_of_birth_ages(self, tmp_path):
        days = pd.date_range("2019-03-05", "2020-11-20", periods=200)
        path = csv(tmp_path, visit=days.strftime("%d.%m.%Y"), birth=days - pd.Timedelta("9000D"))
        made = drafted(path)
        assert made.format.dates == ("%d.%m.%Y",)
        visit = coding_of(path, "visit")
        assert visit.dates
        assert visit.level_names[0] == "[2019-03-01, 2019-04-01)"
        assert visit.level_names[-1] == "[2020-11-01, 2020-11-30]"
        assert made.schema.readings["birth"].age_at == date(2026, 1, 1)
        assert coding_of(path, "birth").decimals == 0
        assert keeps_to_it(path)

    @pytest.mark.parametrize(
        ("visits", "births", "formats", "undecided"),
        [
            (["03/04/2020"], ["13/04/2020"], ("%d/%m/%Y",), ["visit"]),
            (["03/04/2020"], ["04/13/2020"], ("%m/%d/%Y",), ["visit"]),
            (["03/04/2020"], ["03/05/2020"], ("%d/%m/%Y",), ["visit", "seen"]),
            (["13/04/2020"], ["04/13/2020"], ("%d/%m/%Y",), []),
        ],
    )
    def test_a_file_has_one_order_of_day_and_month(self, tmp_path, visits, births, formats, undecided):
        made = drafted(csv(tmp_path, visit=visits * 20, seen=births * 20))
        assert made.format.dates == formats
        assert [one.name for one in made.attributes if "No day is above 12" in one.note] == undecided

    def test_labels_whose_order_is_known(self, tmp_path):
        path = csv(
            tmp_path, how=["often", "never", "sometimes"] * 9, age=["25+", "under 18", "18-24"] * 9
        )
        assert coding_of(path, "how") == Labels(("never", "sometimes", "often"), ordered=True)
        assert coding_of(path, "age").labels == ("under 18", "18-24", "25+")

    def test_names_and_running_numbers_are_left_out(self, tmp_path):
        names = [f"Ann {number}" for number in range(60)]
        path = csv(tmp_path, id=range(60), name=names, row=range(60), sex=["f", "m"] * 30)
        made = drafted(path)
        assert made.schema.coding.domain.attributes == ("sex",)
        assert [one.name for one in made.left_out] == ["id", "name", "row"]

    @pytest.mark.parametrize(
        ("name", "texts"),
        [
            ("comment", ["fine", "well"]),
            ("Bemerkung", ["gut", "schlecht"]),
            ("e-mail", ["a@b.org", "c@d.org"]),
            ("c7", ["I was treated at the clinic on the hill, by Dr Miller and her staff", "no"]),
            ("c8", [*(f"Miller{number}" for number in range(10)), "x"]),
        ],
    )
    def test_no_word_of_free_text_is_copied(self, tmp_path, name, texts):
        column = [*texts[:-1], *texts[-1:] * (60 - len(texts) + 1)]
        path = csv(tmp_path, **{name: column, "sex": ["f", "m"] * 30})
        made = draft(tmp_path / "controller", path, now=NOW)
        written = made.schema.read_text() + made.settings.read_text()
        assert not any(text in written for text in texts[:-1])
        assert [one.name for one in made.columns if one.coding is None] == [name]

    def test_a_file_of_names_alone_cannot_be_declared(self, tmp_path):
        with pytest.raises(InvalidInputError, match="no column"):
            drafted(csv(tmp_path, name=[f"Ann {number}" for number in range(9)]))


class TestFiles:
    """Formats of files: the same table in many forms."""

    TABLE = "Größe;Betrag;Datum\n" + "".join(
        f"{('klein', 'mittel', 'groß')[n % 3]};{n % 40}.{n * 37 % 1000:03},50;{n % 28 + 1:02}.01.2020\n"
        for n in range(60)
    )

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"])
    def test_encodings(self, tmp_path, encoding):
        path = tmp_path / "t.csv"
        path.write_bytes(self.TABLE.encode(encoding))
        made = drafted(path)
        assert made.format.delimiter == ";"
        assert (made.format.decimal, made.format.thousands) == (",", ".")
        assert coding_of(path, "Größe") == Labels(("klein", "mittel", "groß"), ordered=True)
        assert coding_of(path, "Betrag").decimals == 1
        assert coding_of(path, "Datum").dates
        assert keeps_to_it(path)
        settings = Settings.load(draft(tmp_path / "c", path, now=NOW).settings)
        assert settings.datasets[0].format.value == made.format

    def test_the_settings_state_every_mark(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("c0,c1\n" + "#x,1\n1,1\n" * 100)
        files = draft(tmp_path / "c", path, now=NOW)
        marks = 'delimiter = ",", quote = "\\"", escape = "\\"", comment = "", header = true, skip = 0'
        assert f"format = {{ {marks} }}" in files.settings.read_text()
        with OpenRecords(path, drafted(path).format) as records:
            assert records.rows("SELECT count(*) FROM records") == [(200,)]

    def test_records_that_the_engine_counts_otherwise_are_not_drafted(self, tmp_path, monkeypatch):
        path = tmp_path / "t.csv"
        path.write_text("a,b\n" + "1,x\n2,y\n" * 10)
        monkeypatch.setattr(schema_draft, "detect", lambda place, *_: (detect(place)[0], 21, ""))
        with pytest.raises(InvalidInputError, match="21 records, of which the engine reads 20"):
            draft_schema(path, "t", today=NOW.date())

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_delimiters_and_quoted_values(self, tmp_path, delimiter):
        path = tmp_path / "t.csv"
        frame = pd.DataFrame({"a": ["x, y; z|\t", 'say "hi"'] * 10, "b": [1, 2] * 10})
        frame.to_csv(path, index=False, sep=delimiter)
        assert drafted(path).format.delimiter == delimiter
        assert coding_of(path, "a").labels == ('say "hi"', "x, y; z|\t")
        assert keeps_to_it(path)

    def test_a_line_that_states_the_delimiter(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("sep=;\na;b\n" + "1;x\n2;y\n" * 10)
        assert drafted(path).schema.coding.domain.attributes == ("a", "b")
        assert keeps_to_it(path)

    def test_spaces_around_names_and_values(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("age, work\n" + "39, State-gov\n50, Private\n" * 10)
        assert coding_of(path, "work").labels == ("Private", "State-gov")
        assert keeps_to_it(path)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("a,b,a\n" + "1,2,3\n" * 9, "column names in line 1: 'a'"),
            ("a,b\n" + "1,2\n" * 9 + "1\n1,2,3\n" + "1,2\n", "lines 11, 12"),
            ('a,b\n1,2\n1,"2\n', "near line 3"),
            ("a,b\n1,2\n2,1\n1,2\n", "fewer than 8 records"),
        ],
    )
    def test_what_cannot_be_read_is_said_with_its_line(self, tmp_path, text, words):
        path = tmp_path / "t.csv"
        path.write_text(text)
        with pytest.raises(InvalidInputError) as refusal:
            drafted(path)
        assert words in str(refusal.value)

    @pytest.mark.parametrize("name", MESSY)
    def test_a_messy_file_keeps_to_its_draft_and_shows_nobody(self, tmp_path, name):
        """Amounts, dates and answers are what they are; no identifier or free text is copied."""
        path = MESSY[name](tmp_path)
        made = draft(tmp_path / "controller", path, now=NOW)
        schema = read_schema(made.schema)
        assert schema.coding.attribute("income").coding.edges[:2] == (0, 0.01)
        assert schema.coding.attribute("visit").coding.dates
        left_out = {one.name for one in made.columns if one.coding is None}
        assert left_out == {"id", *LEFT_OUT.get(name, ("comment",))}
        (entry,) = Settings.load(made.settings).datasets
        Vault(path, schema.coding, schema.readings, entry.format.value).check()
        written = made.schema.read_text() + made.settings.read_text()
        assert not re.search(r"P\d{6}|said no|example\.org", written)

    @pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
    @pytest.mark.parametrize("names", [",a,b", "a,,b", "Unnamed: 0,a,b"])
    def test_a_column_without_a_name_is_left_out(self, tmp_path, names, encoding):
        path = tmp_path / "t.csv"
        path.write_text(names + "\n" + "1,2,ü\n0,1,o\n" * 9, encoding=encoding)
        assert drafted(path).schema.coding.domain.attributes == ("a", "b")
        assert keeps_to_it(path)

    def test_an_empty_file(self, tmp_path):
        (tmp_path / "t.csv").touch()
        with pytest.raises(EmptyDatasetError):
            drafted(tmp_path / "t.csv")


numbers = st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False)


def test_a_draft_of_three_columns_permits_the_sums_of_a_regression(tmp_path):
    """Five sums; one marginal for each pair would permit three."""
    rng, path = np.random.default_rng(1), tmp_path / "three.csv"
    x, group = rng.integers(0, 90, 500), rng.choice(["a", "b"], 500)
    pd.DataFrame({"y": x + rng.integers(0, 9, 500), "x": x, "g": group}).to_csv(path, index=False)
    made = draft(tmp_path / "controller", path, now=NOW)
    coding = read_schema(made.schema).coding
    written = read_factors("y ~ x + g", coding)
    needs = AnswerRequest(written, Analysis.LINEAR, coding, {}, "", "level", {}).needs(rows=True)
    policy = Settings.load(made.settings).datasets[0].policy
    assert 3 < len(needs.cliques) + len(needs.sums) <= policy.most_marginals


def test_exact_counts_histograms_and_sums_are_offered_where_that_is_wanted(tmp_path, fair):
    plain, exact = (
        Settings.load(draft(tmp_path / name, fair, now=NOW, exact=name == "exact").settings).datasets[0]
        for name in ("plain", "exact")
    )
    assert plain.policy.mechanisms == (Mechanism.GAUSSIAN,)
    assert set(exact.policy.mechanisms) == {Mechanism.EXACT, Mechanism.GAUSSIAN}
    assert (plain.policy.sums, plain.policy.histograms) == ("noise", "noise")
    assert (exact.policy.sums, exact.policy.histograms) == ("exact", "exact")
    assert exact.policy.measuring(noisy=False).largest_order == 4
    assert exact.policy.most_marginals == plain.policy.most_marginals >= 45
    more = exact.caps.analyst.statistics - plain.caps.analyst.statistics
    assert exact.policy.most_per_card.statistics - plain.policy.most_per_card.statistics == more > 0


@example([-20_000_000_001.0, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 41.0], None, [])
@given(
    st.lists(numbers, min_size=9, max_size=9, unique=True).map(sorted),
    st.none() | st.integers(0, 3),
    st.lists(st.integers(0, 8), max_size=3, unique=True),
)
def test_a_draft_of_numbers_holds_every_value_in_few_levels(quantiles, decimals, shared):
    """Values may have so many digits that they are rounded."""
    if decimals is not None:
        quantiles = sorted({round(number, decimals) for number in quantiles})
        if len(quantiles) < 9 or decimals > most_decimals(quantiles):
            decimals = None
    positive = sorted(number for number in quantiles if number > 0)
    middle = (positive[0], positive[len(positive) // 2]) if positive else ()
    heaps = tuple((quantiles[place % len(quantiles)], 60) for place in shared)
    profile = Profile(
        "x", 500, 500, {}, 400, (), 0, 9, "number", tuple(quantiles), middle, heaps, decimals=decimals
    )
    coding = drafted_scale(profile).edges_of(missing=False, dates=False)
    assert Attribute("x", coding).coding is coding
    codes = codes_of_numbers("x", coding, np.array(quantiles))
    assert list(codes) == sorted(codes)
    assert 1 <= coding.size <= 60


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_a_draft_drops_is_said_in_its_comment(tmp_path, ending):
    rng = np.random.default_rng(4)
    times = pd.Timestamp("1960-01-01") + pd.to_timedelta(rng.integers(0, 10**9, 300), unit="s")
    frame = pd.DataFrame(
        {
            "birth": times,
            "date_of_birth": times.tz_localize("UTC"),
            "born": times.normalize(),
            "amount": rng.normal(0, 10**6, 300),
            "list": [[1, 2]] * 300,
            "sex": rng.choice(["f", "m"], 300),
        }
    )
    if ending == "csv":
        frame = frame.drop(columns="list")
        frame["birth"] = times.strftime("%Y-%m-%d %H:%M:%S")
        frame["date_of_birth"] = times.strftime("%Y-%m-%dT%H:%M:%S+02:00")
        frame.to_csv(tmp_path / "a.csv", index=False)
    else:
        frame.to_parquet(tmp_path / "a.parquet")
    drafted = draft_schema(tmp_path / f"a.{ending}", "t", today=date(2026, 1, 1))
    notes = {one.name: one.note for one in drafted.attributes}
    assert notes["birth"].endswith("Times of day are left out.")
    assert notes["date_of_birth"].endswith("Times of day are left out; days are those in UTC.")
    assert "Times" not in notes["born"]
    assert "Values are rounded to multiples of" in notes["amount"]
    assert ending == "csv" or notes["list"] == "values of its type cannot be declared"
    text = drafted_schema_text(drafted)
    assert all(note in text for note in notes.values())
