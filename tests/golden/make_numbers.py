"""Made the golden bundle with histograms and sums, once: ``python -m tests.golden.make_numbers FOLDER``.

Like the others it is never made again. Its rows have a missing level, points, dates, an attribute
without a histogram, and one that is derived without a step.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from gencard.client import histogram, total
from gencard.controller.drafting.folder import drafted_schema_text
from gencard.controller.drafting.schema_draft import draft_schema
from tests.golden.make import public_pem
from tests.system.house import House, build
from tests.system.raw_calls import configure, known_seeds
from tests.system.test_numbers import expenditures
from tests.system.thread_jobs import run_jobs_in_threads

PHI = (
    ("spent", "sex"),
    ("hours", "sex"),
    ("day", "sex"),
    ("large", "sex"),
    ("health", "hours"),
    histogram("spent"),
    histogram("hours"),
    total("spent"),
    total("hours"),
    total("spent", by=["sex"]),
    total("hours", "hours"),
)
LARGE = """
[[attributes]]
name = "large"
of = "spent"
edges = [0, 100, {last}]
"""


@contextmanager
def started(folder: Path) -> Iterator[House]:
    """A controller whose policy offers histograms and sums with noise."""
    records = expenditures(900)
    records["hours"] = records["hours"].where(np.arange(900) % 20 != 7)
    house = build(folder, records)
    draft = draft_schema(folder / "survey.csv", "A survey", today=date(2026, 1, 1))
    text = drafted_schema_text(draft).replace("reviewed = false", "reviewed = true")
    edges = draft.schema.coding.attribute("spent").coding.edges
    (house.folder / "schema.toml").write_text(text + LARGE.format(last=int(edges[-1])))
    house.offer_private('["ipf"]')
    noise = '{ mechanism = "gaussian", neighbouring = "add-remove", rho = "0.5" }'
    offered = {"histograms": '"noise"', "sums": '"noise"', "noise": noise}
    configure(house, "datasets.policy", mechanisms='["exact", "gaussian"]', **offered)
    with pytest.MonkeyPatch.context() as patch, known_seeds():
        run_jobs_in_threads(patch)
        try:
            yield house.start()
        finally:
            house.stop()


def make(folder: Path) -> None:
    """Save a release as CSV and Parquet, and the public keys of controller and analyst."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        house = stack.enter_context(started(scratch))
        analyst = stack.enter_context(house.analyst())
        noise = {"rho": "0.5", "neighbouring": "add-remove"}
        card = analyst.propose("survey", PHI, purpose="golden: numbers", rows=1_000, **noise).accept()
        release = card.release(120, seed=2**64 - 2, progress=False)
        release.save(folder / "histograms", "rows.csv")
        release.write(folder / "histograms" / "rows.parquet")
        keys, person = folder / "histograms-keys", house.person("ana")
        keys.mkdir(parents=True)
        for name in ("controller_card_key.pub", "log_key.pub"):
            shutil.copy(person / name, keys / name)
        (keys / "signing_key.pub").write_bytes(public_pem(person / "signing_key.pem"))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
