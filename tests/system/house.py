"""A whole controller in a temporary folder, served over real mutual TLS on a free port."""

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import grpc
import numpy as np
import pandas as pd

from gencard.client import Analyst, install_answer, new_request
from gencard.controller.boxes import Boxes, ReviewTable
from gencard.controller.drafting import folder as drafting
from gencard.controller.drafting.edits import write_review
from gencard.controller.drafting.schema_draft import SchemaDraft, draft_schema
from gencard.controller.people.enrolment import enrol
from gencard.controller.people.keys import read_authority
from gencard.controller.settings import Settings
from gencard.controller.state.database import Database
from gencard.controller.wiring.serving import Controller, serve
from gencard.wire.keys import Role, request_of_document

REVIEWER = "sam, who trusts its author"

LEAKY_BOXES = """
[[black_boxes]]
name = "leaky"
kind = "adds_marginal"
clique = ["sex", "health", "work"]
description = "Says it releases pairs, and smuggles in a triple."

[[black_boxes]]
name = "copier"
kind = "copies_rows"
share = 0.5
description = "Copies half of the records."

[lending]
black_boxes = ["copier", "honest", "ipf", "leaky"]
"""


def survey(records: int = 3_000, seed: int = 1) -> pd.DataFrame:
    """A made-up survey with a three-way interaction, so that there is something to leak."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, records)
    health = rng.integers(0, 4, records)
    odd = (sex + health) % 2
    work = np.where(rng.random(records) < 0.7, odd, rng.integers(0, 3, records))
    age = np.clip(rng.normal(45, 18, records), 16, 95).round()
    return pd.DataFrame(
        {
            "sex": np.array(["female", "male"])[sex],
            "health": np.array(["good", "fair", "bad", "very bad"])[health],
            "work": np.array(["none", "part", "full"])[work],
            "region": np.array(["north", "south"])[rng.integers(0, 2, records)],
            "age": age,
        }
    )


EXACT = """\
mechanisms = ["exact"]
generators = {generators}
largest_order = 2
largest_marginal_cells = 10_000
most_marginals = {pairs}
most_rows = 100_000
most_per_card = {{ statistics = {statistics} }}
forbidden = []
automatic = true
valid_days = 90

[datasets.caps]
dataset = {{ statistics = {dataset} }}
project = {{ statistics = {project} }}
analyst = {{ statistics = {project} }}
"""
"""Policy and caps of the tests' survey: exact counts of pairs, with ample caps."""

SCHEMA = """
title = "A made-up survey"
description = "For tests."
declared_by = "the tests"
reviewed = true

[[attributes]]
name = "sex"
labels = ["female", "male"]

[[attributes]]
name = "health"
labels = ["good", "fair", "bad", "very bad"]
ordered = true

[[attributes]]
name = "work"
labels = ["none", "part", "full"]

[[attributes]]
name = "region"
labels = ["north", "south"]

[[attributes]]
name = "age"
edges = [16, 30, 45, 65, 95]
"""

SPENDING = SCHEMA.replace(
    'name = "age"\nedges = [16, 30, 45, 65, 95]\n',
    'name = "spent"\nedges = [0, 100, 1_000, 100_000]\nstep = "1"\nfine = 50\n',
)
"""Schema of ``spending``."""


def spending() -> pd.DataFrame:
    """Return a survey of 900 with one expenditure of 90,000 among others of about 100."""
    records = survey(900).drop(columns="age")
    records["spent"] = np.random.default_rng(1).integers(50, 150, 900)
    records.loc[7, "spent"] = 90_000
    return records


@dataclass
class House:
    """The controller's folder, and the running service while there is one."""

    folder: Path
    controller: Controller | None = None
    _channels: list[grpc.Channel] = field(default_factory=list)

    @property
    def settings_file(self) -> Path:
        return self.folder / "controller.toml"

    @property
    def address(self) -> str:
        assert self.controller is not None
        return f"localhost:{self.controller.port}"

    def person(self, name: str) -> Path:
        return self.folder / "people" / name

    def settings(self) -> Settings:
        return Settings.load(self.settings_file)

    def edit(self, changes: Mapping[str, str]) -> None:
        """Set keys of controller.toml, wherever they stand."""
        text = self.settings_file.read_text()
        for name, value in changes.items():
            text, found = re.subn(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
            assert found, name
        self.settings_file.write_text(text)

    def offer_exact_counts(self) -> None:
        """Replace the drafted policy and caps by ``EXACT``, for the pairs of the drafted schema."""
        text = self.settings_file.read_text()
        pairs = int(re.findall(r"(?m)^most_marginals = (\d+)", text)[0])
        statistics = int(re.findall(r"(?m)^most_per_card = .*?statistics = (\d+)", text)[0])
        policy = EXACT.format(
            generators=re.findall(r"(?m)^generators = (.*)$", text)[0],
            pairs=pairs,
            statistics=statistics,
            dataset=20 * statistics,
            project=10 * statistics,
        )
        drafted = re.compile(r"(?ms)^\[datasets\.policy\].*?(?=^\[\[)")
        assert drafted.search(text)
        self.settings_file.write_text(drafted.sub(f"[datasets.policy]\n{policy}\n", text, 1))

    def raise_caps(self) -> None:
        """Enough budget for a test that makes hundreds of releases; before other datasets are added."""
        self.edit(dict.fromkeys(("dataset", "project", "analyst"), "{ statistics = 1_000_000 }"))

    def offer_private(self, generators: str, most: str = "1_000") -> None:
        """Let cards name these generators, with so much epsilon and rho beside the exact counts."""
        caps = f"{{ statistics = 1_000_000, epsilon = {most}, rho = {most} }}"
        fields = ("most_per_card", "dataset", "project", "analyst")
        self.edit(dict.fromkeys(fields, caps) | {"generators": generators})

    def allow_audits(self, most: int) -> None:
        """Set the most audits by one submitter on one dataset."""
        text = self.settings_file.read_text()
        self.settings_file.write_text(re.sub(r"(?m)^\[limits\].*$", f"[limits]\naudits = {most}", text))

    def review(self, *boxes: str) -> None:
        """Write a review of these black boxes, as they are now, into the settings."""
        settings = self.settings()
        known = Boxes(settings.black_boxes, 1, settings.cell, settings.state.work)
        for box in boxes:
            write_review(self.settings_file, box, ReviewTable(name=REVIEWER, digest=known.digest(box)))

    def start(self) -> "House":
        self.controller = serve(self.settings())
        return self

    def stop(self, grace: float = 1.0) -> None:
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        if self.controller is not None:
            self.controller.stop(grace)
            self.controller = None

    def analyst(self, name: str = "ana") -> Analyst:
        return Analyst.connect(self.address, folder=self.person(name))

    def channel(self, name: str = "ana", address: str = "") -> grpc.Channel:
        """A raw channel with somebody's certificate, for what the client would never send."""
        person = self.person(name)
        credentials = grpc.ssl_channel_credentials(
            (person / "authority.pem").read_bytes(),
            (person / "key.pem").read_bytes(),
            (person / "certificate.pem").read_bytes(),
        )
        channel = grpc.secure_channel(address or self.address, credentials)
        self._channels.append(channel)
        return channel

    def enrol(self, name: str, role: Role = Role.ANALYST, project: str = "survey") -> None:
        """Enrol a person as two people do it, in a folder beside those of the demonstration's people."""
        request = new_request(self.person(name), name)
        answer = enrol(
            self.folder,
            request_of_document(request.file.read_bytes()),
            read_authority(self.folder / "authority"),
            role=role,
            project=project,
            address="localhost:0",
            now=datetime.now(UTC),
        )
        install_answer(self.person(name), answer.document)


_DRAFTS: dict[tuple[bytes, str, date], SchemaDraft] = {}


def _drafted(place: Path, title: str, *, today: date, **_: object) -> SchemaDraft:
    """Replace ``draft_schema``; records of the same bytes are looked at once."""
    known = (place.read_bytes(), title, today)
    if known not in _DRAFTS:
        _DRAFTS[known] = draft_schema(place, title, today=today)
    return _DRAFTS[known]


@cache
def _empty_state() -> bytes:
    """A database of the newest version: a migration takes longer than the rest of a start."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "state.sqlite")
        database = Database(f"sqlite:///{file}")
        database.migrate()
        database.close()
        return file.read_bytes()


def build(
    folder: Path, data: pd.DataFrame | None = None, schema: str = SCHEMA, *, people: bool = True
) -> House:
    """A drafted, reviewed, not yet started controller: ana, aud and sam, or nobody."""
    file = folder / "survey.csv"
    (survey() if data is None else data).to_csv(file, index=False)
    house = House(folder / "controller")
    with patch.object(drafting, "draft_schema", _drafted):
        drafting.draft(house.folder, file, now=datetime.now(UTC), demo_people=people)
    state = house.folder / "state" / "state.sqlite"
    state.touch(mode=0o600)
    state.write_bytes(_empty_state())
    (house.folder / "schema.toml").write_text(schema)
    house.offer_exact_counts()
    house.edit({"address": '"localhost:0"\ncalls_per_second = 100_000  # tests are quick'})
    house.edit({"open_proposals": "100_000", "cards": "100_000\ncard_mib = 1_000"})
    with house.settings_file.open("a") as settings:
        settings.write(LEAKY_BOXES)
    return house


def declare(
    house: House, holdout: Path, keys: tuple[str, ...] = ("sex", "region"), target: str = "health"
) -> None:
    """Give the survey a holdout, keys, a target and a gap."""
    gap = "{ attribute = 'sex', first = 'male', second = 'female', within = 'health' }"
    measures = f"{{ keys = {list(keys)}, target = '{target}', attacks = 100, gap = {gap} }}"
    lines = f'schema = "schema.toml"\nholdout = "{holdout}"\nmeasures = {measures}\n'
    text = house.settings_file.read_text()
    house.settings_file.write_text(text.replace('schema = "schema.toml"\n', lines, 1))


@contextmanager
def running(folder: Path, **kwargs: object) -> Iterator[House]:
    house = build(folder, **kwargs)  # type: ignore[arg-type]  # passed on as they came
    try:
        yield house.start()
    finally:
        house.stop()


class Clock:
    """The time, and how much more of it has passed than did."""

    ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def request_id() -> str:
    return str(uuid.uuid4())
