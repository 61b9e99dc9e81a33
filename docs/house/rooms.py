"""Rooms of the four large packages: their tiers, and which rooms each may import.

A room is a folder or a single file. One rule holds: a room imports rooms of lower tiers only, and of
these only the ones that its entry names. ``docs/architecture.md`` says what each room promises.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from docs.house.sources import reached


@dataclass(frozen=True, slots=True)
class Room:
    """Place of a room in its package.

    Args:
        tier: Number of its tier; 1 is the lowest.
        imports: Names of the rooms of the same package that it may import.
    """

    tier: int
    imports: frozenset[str]


def _rooms(table: str) -> dict[str, Room]:
    rooms = {}
    for line in table.strip().splitlines():
        tier, name, *imports = line.split()
        rooms[name] = Room(int(tier), frozenset(imports))
    return rooms


HOUSES: Mapping[str, Mapping[str, Room]] = {
    "controller": _rooms("""
        13 shell answers audits backup base boxes controller_state drafting jobs notify page people \
            policy records sandbox settings state stewards wiring
        12 wiring answers audit_runs audits backup base boxes cards controller_state evaluations jobs \
            notify operations page people policy records releases sandbox service settings state \
            stewards
        11 backup audits base cards controller_state jobs people settings state
        11 notify base controller_state settings settings_tables state stewards
        11 page base cards controller_state records settings_tables state stewards
        11 service answers audit_runs audits base boxes cards controller_state evaluations failures \
            operations people records releases settings state stewards
        10 controller_state answers base boxes cards failures operations people settings state \
            stewards
        9 audit_runs audits failures jobs operations records sandbox state
        9 evaluations cards failures jobs operations policy records releases state
        9 stewards answers cards failures jobs operations people records state
        8 answers base cards failures jobs operations records run_question sandbox state
        8 audits base boxes cards operations policy records state
        8 releases base cards failures jobs operations records sandbox state
        7 operations base failures jobs state
        6 drafting base boxes people records settings
        6 failures cards jobs records state
        5 cards boxes jobs policy records state
        5 settings base boxes records sandbox settings_tables state
        4 policy boxes records
        4 settings_tables base boxes
        3 boxes base sandbox
        3 jobs base earlier noise records run_question sandbox
        3 people base state
        2 earlier run_question
        2 records base
        2 sandbox noise
        2 state base
        1 base
        1 noise
        1 run_question
    """),
    "client": _rooms("""
        10 shell agreement analyst answers audit card card_view catalogue checking common connection \
            findings planning steward steward_views terms
        9 analyst agreement card card_view catalogue checking common connection planning terms
        8 planning agreement card card_view catalogue common connection
        7 card agreement answers audit card_report card_view catalogue checking common connection \
            findings terms
        7 pages answers audit card_report common findings
        6 card_report agreement answers audit catalogue common connection findings
        6 steward catalogue checking common connection steward_views
        5 answers agreement checking common connection
        5 audit agreement common connection
        5 steward_views card_view common
        4 agreement checking common connection findings
        4 card_view catalogue checking common connection terms
        3 catalogue common connection
        3 checking common connection terms
        2 connection common
        2 findings common
        2 terms common
        1 common
    """),
    "core": _rooms("""
        7 audit blackbox card coding dataset domain errors json_codecs statistics typed_json types
        7 catalogue card coding json_codecs policy
        7 generators card coding dataset domain errors statistics types
        6 derived_cells card coding dataset domain
        6 policy card domain errors json_codecs
        6 statistics card coding dataset domain errors json_codecs scale types
        5 card coding domain errors json_codecs scale typed_json types
        4 blackbox dataset domain errors types
        4 coding dataset domain errors json_codecs scale types values
        4 program_outputs errors json_codecs typed_json
        3 dataset domain errors types
        3 scale json_codecs
        3 typed_json domain json_codecs
        2 domain errors
        2 json_codecs errors
        1 errors
        1 types
        1 values
    """),
    "wire": _rooms("""
        4 log canonical documents dsse
        4 steward canonical documents keys
        3 documents canonical dsse
        3 keys canonical dsse
        3 tables canonical psi
        2 black_box canonical
        2 codec canonical
        2 dsse canonical
        2 psi canonical
        1 canonical
        1 error_table
    """),
}
"""Package below ``gencard`` -> its rooms. A line: tier, name, and the rooms that it may import."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An import from one room into another of the same package."""

    package: str
    importer: str
    """Room that imports."""
    target: str
    """Room that is imported."""
    modules: tuple[str, str]
    """Modules between which the import goes."""

    @property
    def goes_up(self) -> bool:
        """Whether it enters a room of its own tier or above."""
        rooms = HOUSES[self.package]
        return rooms[self.importer].tier <= rooms[self.target].tier

    @property
    def is_allowed(self) -> bool:
        return self.target in HOUSES[self.package][self.importer].imports

    def __str__(self) -> str:
        return " -> ".join(self.modules)


def room_of(module: str) -> tuple[str, str] | None:
    """Return package and room of a module; None outside the packages that have rooms."""
    parts = module.split(".")
    if len(parts) < 3 or parts[0] != "gencard" or parts[1] not in HOUSES:
        return None
    return parts[1], parts[2]


def arrows(imports: Mapping[str, frozenset[str]]) -> Iterator[Arrow]:
    """Find the imports between rooms.

    Args:
        imports: Name of each module -> modules that it imports.
    """
    for module, targets in imports.items():
        for target in sorted(targets):
            here, there = room_of(module), room_of(target)
            if here and there and here[0] == there[0] and here != there:
                rooms = HOUSES[here[0]].keys()
                if {here[1], there[1]} <= rooms:  # an earlier commit has other rooms
                    yield Arrow(here[0], here[1], there[1], (module, target))


def loops(imports: Mapping[str, frozenset[str]]) -> tuple[tuple[str, ...], ...]:
    """Find groups of modules that import each other in a circle, each sorted.

    A package runs before each of its modules in any case, so a module's import of it counts for nothing.

    Args:
        imports: Name of each module -> modules of the same tree that it imports.
    """
    direct = {
        module: {name for name in targets if not module.startswith(f"{name}.")}
        for module, targets in imports.items()
    }
    loaded = {module: reached(first, direct.__getitem__) for module, first in direct.items()}
    groups = {
        tuple(sorted(other for other in loaded[module] if module in loaded[other]))
        for module in imports
        if module in loaded[module]
    }
    return tuple(sorted(groups))
