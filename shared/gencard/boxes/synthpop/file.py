"""Fitted trees as bytes, and back: a JSON header and plain arrays, nothing that runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gencard.boxes.synthpop.conditional import Conditional
from gencard.boxes.synthpop.options import json_of, rules_of
from gencard.boxes.synthpop.rules import FREE
from gencard.boxes.synthpop.scale import Density
from gencard.boxes.synthpop.step import Step
from gencard.boxes.synthpop.tree import Tree
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError
from gencard.core.generators.archive import BROKEN, Arrays, archived, unarchived

_VERSION = 1
_KIND = "synthpop"


def bytes_of(domain: Domain, steps: Sequence[Step]) -> bytes:
    """An archive; equal fits give equal bytes."""
    arrays: dict[str, Any] = {}
    for number, step in enumerate(steps):
        for place, each in enumerate(step.conditionals):
            arrays |= _arrays(f"{number}.{place}", each)
        if step.density:
            arrays[f"{number}.numbers"] = step.density.numbers
    header = {
        "version": _VERSION,
        "kind": _KIND,
        "attributes": domain.attributes,
        "sizes": domain.sizes,
        "steps": [_told(step) for step in steps],
    }
    return archived(header, arrays)


def fit_of(data: bytes, *, most_bytes: int = 2**30) -> tuple[Domain, tuple[Step, ...]]:
    """What ``bytes_of`` wrote.

    Raises:
        BlackBoxError: These are not the bytes of a fit of this version, or over the bound.
    """
    try:
        header, arrays = unarchived(data, most_bytes=most_bytes, version=_VERSION)
        domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
        steps = tuple(_step(domain, number, told, arrays) for number, told in enumerate(header["steps"]))
        if header["kind"] == _KIND and _are_sound(steps, domain):
            return domain, steps
    except (*BROKEN, AttributeError, IndexError):
        pass
    raise BlackBoxError(problem="the saved bytes are not a fit of this black box")


def _told(step: Step) -> dict[str, Any]:
    """What of a step is no array."""
    return {
        "axis": step.axis,
        "rules": json_of(step.rules),
        "predictors": [each.predictors for each in step.conditionals],
        "bandwidth": step.density.bandwidth if step.density else None,
    }


def _arrays(name: str, each: Conditional) -> dict[str, Any]:
    tree = each.tree
    return {
        f"{name}.places": np.concatenate([np.zeros(0, dtype=np.int64), *each.places]),
        f"{name}.tree": np.stack([tree.predictor, tree.cut, tree.left, tree.right]),
        f"{name}.donors": each.donors,
        f"{name}.starts": each.starts,
    }


def _step(domain: Domain, number: int, told: Mapping[str, Any], arrays: Arrays) -> Step:
    conditionals = tuple(
        _conditional(domain, tuple(predictors), f"{number}.{place}", arrays)
        for place, predictors in enumerate(told["predictors"])
    )
    density = None
    if told["bandwidth"] is not None:
        density = Density(arrays[f"{number}.numbers"], told["bandwidth"])
    return Step(told["axis"], rules_of(told["rules"]), conditionals, density)


def _conditional(domain: Domain, predictors: tuple[int, ...], name: str, arrays: Arrays) -> Conditional:
    ends = np.cumsum([domain.sizes[axis] for axis in predictors], dtype=np.int64)
    places = tuple(np.split(arrays[f"{name}.places"], ends)[:-1])
    tree = Tree(*arrays[f"{name}.tree"])
    return Conditional(predictors, places, tree, arrays[f"{name}.donors"], arrays[f"{name}.starts"])


def _are_sound(steps: Sequence[Step], domain: Domain) -> bool:
    """Whether every attribute is drawn once, from those before it, and no code leaves its domain."""
    if sorted(step.axis for step in steps) != list(range(len(domain))):
        return False
    return all(
        _is_sound(step, {each.axis for each in steps[:number]}, domain)
        for number, step in enumerate(steps)
    )


def _is_sound(step: Step, earlier: set[int], domain: Domain) -> bool:
    for rule in step.rules:
        rule.check(domain)
    asked = {axis for each in step.conditionals for axis in each.predictors}
    asked |= {domain.axis(name) for rule in step.rules for name, _ in rule.where}
    if not (asked <= earlier and 1 <= len(step.conditionals) <= 2):
        return False
    if not all(each.is_sound(domain) for each in step.conditionals):
        return False
    lowest = [FREE, 0][-len(step.conditionals) :]
    donors = [each.donors for each in step.conditionals]
    inside = all(
        d.min() >= low and d.max() < domain.sizes[step.axis]
        for d, low in zip(donors, lowest, strict=True)
    )
    return inside and _is_smooth(step, domain)


def _is_smooth(step: Step, domain: Domain) -> bool:
    if step.density is None:
        return True
    numbers, bandwidth = step.density.numbers, step.density.bandwidth
    return bool(
        numbers.shape == (domain.sizes[step.axis],)
        and numbers.dtype == np.float64
        and not np.isinf(numbers).any()
        and not np.isnan(numbers).all()
        and isinstance(bandwidth, float)
        and 0 <= bandwidth < np.inf
    )
