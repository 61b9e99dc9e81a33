"""Linear statistics as objects of JSON types, and back, without loss."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gencard.core.statistics.linear import Function, LinearStatistic

Json = dict[str, Any]


def json_of_statistic(statistic: LinearStatistic) -> Json:
    """Dictionaries, lists, strings and whole numbers of at most 32 bits."""
    functions = [asdict(each) | {"values": list(each.values)} for each in statistic.functions]
    return {"clique": list(statistic.clique), "functions": functions}


def statistic_of_json(document: Mapping[str, Any]) -> LinearStatistic:
    """Raises KeyError, TypeError or what the constructors refuse, where this is no statistic."""
    functions = (Function(**each | {"values": tuple(each["values"])}) for each in document["functions"])
    return LinearStatistic(tuple(document["clique"]), tuple(functions))
