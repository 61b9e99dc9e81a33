"""Paths of the golden files, and readers. Tests read the files; only ``make`` ever wrote them."""

import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "golden"
BUNDLES = FOLDER / "bundles"
LATER = FOLDER / "later"
"""A bundle of another controller, made by the last code that wrote its kind, and its public keys."""


def golden(name: str) -> bytes:
    """The bytes of a golden file."""
    return (FOLDER / name).read_bytes()


def golden_json(name: str) -> Any:
    """A golden file of JSON."""
    return json.loads(golden(name))


FIRST_FINDINGS = golden_json("reports/findings.json")


def findings() -> dict[str, Any]:
    """A finding of each evaluation; of each that is newer than the first version from its own file."""
    newer = (path.name for path in (FOLDER / "reports").glob("finding-*.json"))
    return FIRST_FINDINGS | {
        name.removeprefix("finding-").removesuffix(".json"): golden_json(f"reports/{name}")
        for name in sorted(newer)
    }


def names(folder: str, ending: str = ".json") -> list[str]:
    """The golden files of a folder, without their ending, sorted."""
    return sorted(path.name.removesuffix(ending) for path in (FOLDER / folder).glob(f"*{ending}"))


def packed(name: str) -> Any:
    """A golden file of compressed JSON."""
    return json.loads(gzip.decompress(golden(name)))
