"""The folder of a new controller: complete, private, never over anything."""

import re
import stat
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.controller.people.certificates import read_authority, trust_domain_of
from gencard.controller.people.enrolment import demo_people
from gencard.controller.people.identities import read_identities
from gencard.controller.records.schema_draft import Spread, draft_schema, round_edges
from gencard.controller.records.schema_file import read_schema
from gencard.controller.records.vault import Vault
from gencard.controller.settings.drafting import draft
from gencard.controller.settings.files import secret_bytes, signing_key
from gencard.controller.settings.settings import Settings
from gencard.core.card.noise import Mechanism, gaussian
from gencard.core.coding import Edges, Labels
from gencard.core.errors import EmptyDatasetError, InvalidInputError, StorageError
from gencard.core.generators.registry import GENERATORS
from gencard.core.noise.accounting import epsilon_of
from gencard.core.transform import USUAL_CHECKS

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def fair(tmp_path: Path) -> Path:
    """The survey of the demo."""
    datasets = pytest.importorskip("statsmodels.datasets", reason="needs statsmodels")
    path = tmp_path / "fair.csv"
    datasets.fair.load_pandas().data.to_csv(path, index=False)
    return path


def csv(folder: Path, **columns) -> Path:
    path = folder / "survey.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def keys_in(folder: Path) -> list[Path]:
    """Files that hold a private key."""
    return [path for path in folder.rglob("*") if path.is_file() and b"PRIVATE" in path.read_bytes()]


class TestFolder:
    def test_what_it_leaves_as_a_comment_can_be_taken_as_it_is(self, tmp_path, fair):
        made = draft(tmp_path / "controller", fair, now=NOW)
        text = made.settings.read_text()
        assert "\n# transform = " in text
        made.settings.write_text(text.replace("\n# transform = ", "\ntransform = "))
        (entry,) = Settings.load(made.settings).datasets
        assert entry.policy.policy().transform == USUAL_CHECKS

    def test_what_nobody_chose_is_safe(self, tmp_path, fair):
        """Noise with caps that bind; no exact counts, measures, lending, or box that reads records."""
        settings = Settings.load(draft(tmp_path / "controller", fair, now=NOW).settings)
        policy, caps = settings.datasets[0].policy.policy(), settings.datasets[0].caps
        assert policy.mechanisms == (Mechanism.GAUSSIAN,)
        assert policy.noise == gaussian("0.05", neighbouring="add-remove", delta="1e-6")
        assert policy.largest_order == 2
        assert policy.measures == ()
        assert set(policy.generators) <= set(GENERATORS)
        assert settings.lending.black_boxes == ()
        assert epsilon_of(caps.dataset.rho, Decimal("1e-6")) < 6
        assert policy.most_per_card.rho <= caps.analyst.rho < caps.project.rho < caps.dataset.rho
        assert caps.dataset.statistics == policy.most_per_card.statistics
        assert caps.dataset.epsilon == policy.most_per_card.epsilon == 0

    def test_exact_counts_are_one_line_that_the_steward_types(self, tmp_path, fair):
        made = draft(tmp_path / "controller", fair, now=NOW)
        text = made.settings.read_text()
        (line,) = re.findall(r"(?m)^#   (mechanisms = .*)$", text)
        made.settings.write_text(re.sub(r"(?m)^mechanisms = .*$", line, text))
        entry = Settings.load(made.settings).datasets[0]
        policy = entry.policy.policy()
        assert policy.mechanisms == (Mechanism.EXACT, Mechanism.GAUSSIAN)
        assert policy.most_per_card.fits(entry.caps.analyst.price())

    def test_what_the_draft_says_of_its_budgets_is_so(self, tmp_path, fair):
        text = draft(tmp_path / "controller", fair, now=NOW).settings.read_text()
        told = re.findall(
            r"rho = ([0-9.]+)[ ,\w]*?\s*#?\s*(?:which )?is\s+#?\s*epsilon = ([0-9.]+)", text
        )
        assert len(told) == 2
        for rho, epsilon in told:
            true = epsilon_of(Decimal(rho), Decimal("1e-6"))
            assert true <= Decimal(epsilon) < true + Decimal("0.1")
        assert f"about {round((36 / 0.1) ** 0.5)} records" in text

    def test_it_is_ready_to_serve_the_survey(self, tmp_path, fair):
        made = draft(tmp_path / "controller", fair, now=NOW)
        settings = Settings.load(made.settings)
        (entry,) = settings.datasets
        schema = read_schema(entry.schema_file)
        Vault(entry.data, schema.coding, schema.absent).check()
        assert entry.name == "fair"
        assert not schema.reviewed
        assert made.left_out == ()
        signing_key(settings.signing.card_key, "card")
        signing_key(settings.signing.log_key, "log")
        assert len(bytes.fromhex(secret_bytes(settings.signing.version_salt, "salt").decode())) == 32
        secret_bytes(settings.server.key, "server.key")

    def test_nobody_has_keys_that_the_controller_made_unless_for_a_demonstration(self, tmp_path, fair):
        made = draft(tmp_path / "controller", fair, now=NOW)
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

    def test_all_pairs_of_the_survey_fit_the_drafted_policy(self, tmp_path, fair):
        entry = Settings.load(draft(tmp_path / "c", fair, now=NOW).settings).datasets[0]
        policy = entry.policy.policy()
        assert policy.largest_order == 2
        assert policy.most_marginals == 36
        assert policy.most_per_card.statistics == 902
        assert policy.most_per_card.fits(entry.caps.analyst.price())

    def test_nobody_else_can_look_into_it(self, tmp_path, fair):
        made = draft(tmp_path / "controller", fair, now=NOW)
        assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
        for key in (*made.folder.rglob("*key.pem"), made.folder / "signing" / "version_salt"):
            assert stat.S_IMODE(key.stat().st_mode) == 0o600

    def test_nothing_is_overwritten(self, tmp_path, fair):
        folder = tmp_path / "controller"
        made = draft(folder, fair, now=NOW)
        before = made.settings.read_bytes()
        with pytest.raises(InvalidInputError, match="overwritten"):
            draft(folder, fair, now=NOW)
        assert made.settings.read_bytes() == before

    def test_an_empty_folder_may_be_filled_and_a_file_may_not_be_replaced(self, tmp_path, fair):
        (tmp_path / "empty").mkdir()
        assert draft(tmp_path / "empty", fair, now=NOW).settings.is_file()
        with pytest.raises(InvalidInputError, match="overwritten"):
            draft(fair, fair, now=NOW)

    def test_a_draft_that_fails_leaves_nothing(self, tmp_path, fair, monkeypatch):
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("gencard.controller.settings.drafting._write_texts", full)
        with pytest.raises(StorageError):
            draft(tmp_path / "controller", fair, now=NOW)
        assert [path.name for path in tmp_path.iterdir()] == ["fair.csv"]

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


class TestSchema:
    def test_few_numbers_become_labels_in_their_order(self, tmp_path):
        path = csv(tmp_path, whole=[10, 9, 10, 9] * 3, half=[2.5, 16.5, 6, 9] * 3)
        schema, left_out = draft_schema(path, "t")
        assert schema.coding.attribute("whole").coding == Labels(("9", "10"), True, ordered=True)
        assert schema.coding.attribute("half").coding == Labels(("2.5", "6", "9", "16.5"), ordered=True)
        assert left_out == ()

    def test_many_numbers_become_round_edges(self, tmp_path):
        path = csv(tmp_path, age=np.arange(400) % 61 + 17.5, income=np.geomspace(1, 90_000, 400))
        coding = draft_schema(path, "t")[0].coding
        assert coding.attribute("age").coding == Edges((10, 20, 30, 40, 50, 60, 70, 80))
        assert coding.attribute("income").coding.edges[-3:] == (20_000, 50_000, 100_000)

    def test_missing_values_become_a_level(self, tmp_path):
        path = csv(tmp_path, sex=["f", "m", None, "f"] * 3, age=[*range(10, 21), None])
        coding = draft_schema(path, "t")[0].coding
        assert coding.attribute("sex").coding.missing
        assert "age" not in coding.domain
        Vault(path, coding).check()

    def test_marks_of_missing_numbers_are_no_labels(self, tmp_path):
        age = [str(number % 61) for number in range(400)]
        path = csv(tmp_path, age=["NA", "-", *age, None], state=["NA", "CA"] * 200 + ["CA"] * 3)
        path.write_text(path.read_text().replace('""', ""))
        schema, _ = draft_schema(path, "t")
        assert schema.coding.attribute("age").coding == Edges((0, 10, 20, 30, 40, 50, 60), missing=True)
        assert schema.absent == {"age": ("-", "NA")}
        assert schema.coding.attribute("state").coding.labels == ("CA", "NA")
        Vault(path, schema.coding, schema.absent).check()

    def test_names_and_running_numbers_are_left_out(self, tmp_path):
        names = [f"Ann {number}" for number in range(60)]
        path = csv(tmp_path, id=range(60), name=names, sex=["f", "m"] * 30)
        schema, left_out = draft_schema(path, "t")
        assert schema.coding.domain.attributes == ("sex",)
        assert left_out == ("id", "name")

    def test_a_file_of_names_alone_cannot_be_declared(self, tmp_path):
        with pytest.raises(InvalidInputError, match="no column"):
            draft_schema(csv(tmp_path, name=[f"Ann {number}" for number in range(9)]), "t")


numbers = st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False)


@given(numbers, numbers, numbers)
def test_round_edges_hold_every_value_in_few_intervals(one, two, three):
    low, median, high = sorted((one, two, three))
    edges = round_edges(Spread(low, median, high))
    assert edges[0] <= low <= high <= edges[-1]
    assert 2 <= len(edges) <= 12
    assert all(before < after for before, after in pairwise(edges))
