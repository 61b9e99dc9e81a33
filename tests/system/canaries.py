"""A controller whose records are full of canaries, and a search for them in all that it leaves."""

import base64
import logging
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from tests.system.house import SCHEMA, House, build, declare, survey
from tests.system.raw_calls import configure

WORD = f"CANARY{secrets.token_hex(6)}"
"""Part of every planted text; no other run and no other program has it."""

DIGITS = f"{secrets.randbelow(10**10):010d}7"
"""Decimals of every planted number: as many as a float can hold, so that none is met by chance."""

CROWD = 70_549
"""Records in one cell that no card releases: female, in good health, without work.

Three bytes long: two random bytes before zeros, as at the end of a page of SQLite, are met by chance.
"""

MORE_ATTRIBUTES = """
[[attributes]]
name = "income"
edges = [0, 1000, 5000, 100000]
"""

ENTRY = """
[[datasets]]
name = "{name}"
data = "{data}"
schema = "schema.toml"

[datasets.policy]
largest_order = 2
largest_marginal_cells = 1000
most_marginals = 20
most_rows = 10000
most_per_card = {{ statistics = 1000 }}
automatic = {automatic}
valid_days = 9

[datasets.caps]
dataset = {{ statistics = 100000 }}
project = {{ statistics = 100000 }}
analyst = {{ statistics = 100000 }}
"""


def planted(seed: int, crowd: int) -> pd.DataFrame:
    """Records with a canary in every row: a text nobody declared, and decimals of declared numbers."""
    frame = survey(600, seed)
    others = frame.query("sex == 'female' and health == 'good' and work == 'none'")
    crowd = others.sample(crowd - len(others), replace=True, random_state=seed)
    frame = pd.concat([frame, crowd], ignore_index=True)
    whole = np.random.default_rng(seed).integers(1, 9_000, len(frame))
    frame["income"] = [f"{number}.{DIGITS}" for number in whole]
    frame["age"] = [f"{age:.0f}.{DIGITS}" for age in frame["age"].clip(16, 94)]
    frame["note"] = [f"{WORD}-{row}" for row in range(len(frame))]
    return frame


def tainted(column: str, crowd: int) -> pd.DataFrame:
    """The same with one level that nobody declared, deep in the file."""
    frame = planted(6, crowd)
    frame.loc[len(frame) - 3, column] = f"{WORD}-level"
    return frame


def haunted(folder: Path, crowd: int = CROWD) -> House:
    """The controller: records in order, as CSV and Parquet; out of order, as both; and gone."""
    house = build(folder, planted(5, crowd), SCHEMA + MORE_ATTRIBUTES)
    house.raise_caps()
    house.edit({"generators": '["ipf", "honest"]'})
    house.review("honest")
    configure(house, "datasets.policy", analyses='{ kinds = ["linear"], checked_runs = 5 }')
    others = folder / f"others-{WORD}-file.csv"
    planted(9, crowd).to_csv(others, index=False)
    declare(house, others, keys=("sex", "work"), target="health")
    files = {
        "ward": folder / f"ward-{WORD}-file.parquet",
        "tainted": folder / "tainted.csv",
        "spoiled": folder / "spoiled.parquet",
        "gone": folder / "gone.csv",
    }
    planted(7, crowd).to_parquet(files["ward"], index=False)
    tainted("work", crowd).to_csv(files["tainted"], index=False)
    tainted("income", crowd).to_parquet(files["spoiled"], index=False)
    planted(8, crowd).to_csv(files["gone"], index=False)
    with house.settings_file.open("a") as settings:
        for name, data in files.items():
            automatic = "false" if name == "gone" else "true"
            settings.write(ENTRY.format(name=name, data=data, automatic=automatic))
    return house


def spellings(text: str) -> list[bytes]:
    """A text as it may stand in bytes: plain, in UTF-16, in hex, and in base64 at any offset."""
    plain = text.encode()
    coded = [base64.b64encode(b"\0" * shift + plain)[4 : 4 * (len(plain) // 3)] for shift in range(3)]
    wide = text.encode("utf-16-le")
    return [plain, wide, plain.hex().encode(), plain.hex().upper().encode(), *coded]


_CANARIES = re.compile(
    b"|".join(map(re.escape, [*spellings(WORD), *spellings(DIGITS)]))
    + rb"|(?<![0-9A-Za-z+/=.])%d(?![0-9A-Za-z+/=.])" % CROWD
    + b"|"
    + re.escape(CROWD.to_bytes(8, "little"))
)


def found_in(data: bytes) -> set[bytes]:
    """The canaries in some bytes."""
    return set(_CANARIES.findall(data))


def assert_none(sinks: Mapping[str, bytes]) -> None:
    """No canary in any sink; names those that have one."""
    sung = {name: found for name, data in sinks.items() if (found := found_in(data))}
    assert not sung, sung


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file, by name."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def all_logs() -> Iterator[list[str]]:
    """Every record of every logger, with all that it carries; also those that nobody would print."""
    kept: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            formatter = logging.Formatter()
            told = record.__dict__ | {"process": "-"}  # a number that may be any, CROWD too
            kept.append(formatter.format(record) + repr(told))

    root, keeper = logging.getLogger(), Keeper()
    level = root.level
    root.addHandler(keeper)
    root.setLevel(logging.DEBUG)
    try:
        yield kept
    finally:
        root.removeHandler(keeper)
        root.setLevel(level)


@contextmanager
def diverted_output(target: IO[bytes]) -> Iterator[None]:
    """Standard output and error of this process, C libraries included, go to a file."""
    kept = os.dup(1), os.dup(2)
    try:
        os.dup2(target.fileno(), 1)
        os.dup2(target.fileno(), 2)
        yield
    finally:
        for number, copy in enumerate(kept, start=1):
            os.dup2(copy, number)
            os.close(copy)
