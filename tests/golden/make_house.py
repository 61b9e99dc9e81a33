"""The controller that the golden bundles come from."""

import json
from itertools import combinations
from pathlib import Path

from gencard.client import group_means, variance
from gencard.core.generators.registry import BY_CONSTRUCTION
from tests.system.house import House, build, declare, survey
from tests.system.raw_calls import configure

PAIRS = list(combinations(("sex", "health", "work"), 2))
CAPS = "{ statistics = 1_000_000, epsilon = 100, rho = 100 }"
NOISY_BOXES = """
[[black_boxes]]
name = "mst"
kind = "built_in"
box = "mst"
parameters = { epsilon = "1", delta = "0.000001", neighbouring = "replace-one" }

[[black_boxes]]
name = "bayes"
kind = "built_in"
box = "privbayes"
parameters = { epsilon = "1" }
"""
"""Left out of the settings that are kept: their digests are of the machine, and take seconds."""
TRUSTY = """
[[black_boxes]]
name = "trusty"
kind = "honest"
description = "Keeps its word."
"""
CHECKED = """
[[datasets]]
name = "checked"
data = "../checked.csv"
schema = "schema.toml"

[datasets.policy]
mechanisms = ["exact"]
generators = ["ipf"]
largest_order = 2
largest_marginal_cells = 10_000
most_marginals = 20
most_rows = 10_000
most_per_card = { statistics = 1_000 }
automatic = true
valid_days = 90
transform = { threshold = 3, rounding = 5 }

[datasets.caps]
dataset = { statistics = 100_000 }
project = { statistics = 100_000 }
analyst = { statistics = 100_000 }
"""
KINDS = '["mean", "variance", "moment", "covariance", "group-means", "group-sums"]'
MOMENTS = (variance("age"), group_means("age", by="sex"))
MEASURES = ("dcr", "marginals", "tables")


def house_in(folder: Path) -> House:
    """A controller that offers everything."""
    house = build(folder, survey(900))
    house.settings_file.write_text(
        house.settings_file.read_text().replace(str(folder / "survey.csv"), "../survey.csv")
    )
    survey(500, seed=9).to_csv(folder / "others.csv", index=False)
    survey(700, seed=2).to_csv(folder / "checked.csv", index=False)
    declare(house, Path("../others.csv"), keys=("sex",))
    house.edit(dict.fromkeys(("most_per_card", "dataset", "project", "analyst"), CAPS))
    house.edit({"generators": json.dumps([*BY_CONSTRUCTION, "mst", "bayes", "trusty", "leaky"])})
    configure(
        house,
        "datasets.policy",
        mechanisms='["exact", "laplace", "gaussian"]',
        noise='{ mechanism = "gaussian", neighbouring = "replace-one", rho = "0.01" }',
        moments=f"{{ kinds = {KINDS}, highest = 3 }}",
        measures=json.dumps(MEASURES),
        without_uniques="true",
    )
    text = house.settings_file.read_text()
    head, separator, boxes = text.partition("\n[[black_boxes]]")
    house.settings_file.write_text(f"{head}\n{CHECKED}{separator}{boxes}{TRUSTY}{NOISY_BOXES}")
    house.allow_audits(100)
    house.review("trusty", "leaky")
    return house
