"""Measures of one state of the source tree."""

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from docs.house.module import facts_of
from docs.house.openings import Docstring, bad_openings
from docs.house.reach import unreachable
from docs.house.rooms import arrows, loops
from docs.house.shapes import Conversion, Pair, pairs, repeated_names
from docs.house.sources import ROOT, sources

SMALL = 60
"""A module of fewer lines is small."""

LARGEST_FOLDER = 16
"""Most files in a folder, ``__init__`` not counted."""


@dataclass(frozen=True, slots=True)
class Measures:
    """One state of the source tree, in numbers.

    Args:
        modules: Modules written by hand.
        lines: Their lines.
        import_lines: Lines of these that belong to an import.
        small: Modules under 60 lines.
        one_importer: Modules that exactly one other module imports, packages not counted.
        small_one_importer: Those of them under 60 lines, sorted.
        folders: Folder -> files directly in it, ``__init__`` not counted.
        code_lines: Lines that hold code: neither blank, nor comment, nor docstring.
        comments: Comments; directives to tools are none.
        words: Word that the plan replaces -> its uses as a name, the commonest first.
        unreachable: Modules that no user can reach, sorted.
        pairs: Classes that share most of their fields, two by two.
        conversions: Functions that carry fields by hand, the longest first.
        repeated_names: Name that more than one class has -> how many.
        back_up: Imports from a room into one of its own tier or above.
        loops: Groups of modules that import each other in a circle.
        function_lengths: Lines of each function.
        used_once: Number of private functions that one place in their module names.
        bad_openings: Docstrings, also of tests, benchmarks, docs and examples, that open badly.
    """

    modules: int
    lines: int
    import_lines: int
    small: int
    one_importer: int
    small_one_importer: tuple[str, ...]
    folders: dict[str, int]
    code_lines: int
    comments: int
    words: dict[str, int]
    unreachable: tuple[str, ...]
    pairs: tuple[Pair, ...]
    conversions: tuple[Conversion, ...]
    repeated_names: dict[str, int]
    back_up: tuple[str, ...]
    loops: tuple[tuple[str, ...], ...]
    function_lengths: tuple[int, ...]
    used_once: int
    bad_openings: tuple[Docstring, ...]

    @property
    def conversion_lines(self) -> int:
        """Lines of all conversions by hand."""
        return sum(one.lines for one in self.conversions)

    @property
    def flat_folders(self) -> dict[str, int]:
        """Folders of more than 16 files, the largest first."""
        large = {name: size for name, size in self.folders.items() if size > LARGEST_FOLDER}
        return dict(sorted(large.items(), key=lambda entry: -entry[1]))

    @property
    def excess_files(self) -> int:
        """Files above 16 in a folder, all folders together."""
        return sum(size - LARGEST_FOLDER for size in self.flat_folders.values())


def measure(root: Path = ROOT) -> Measures:
    """Measure a checkout."""
    modules = {name: facts_of(name, path, root) for name, path in sources(root)}
    every = modules.values()
    plain = {name for name, facts in modules.items() if not facts.package}
    importers = Counter(
        target for name, facts in modules.items() for target in (facts.imports & plain) - {name}
    )
    imports = {name: (facts.imports & modules.keys()) - {name} for name, facts in modules.items()}
    shapes = [shape for facts in every for shape in facts.shapes]
    single = sorted(name for name, count in importers.items() if count == 1)
    return Measures(
        modules=len(modules),
        lines=sum(facts.lines for facts in every),
        import_lines=sum(facts.import_lines for facts in every),
        small=sum(facts.lines < SMALL for facts in every),
        one_importer=len(single),
        small_one_importer=tuple(name for name in single if modules[name].lines < SMALL),
        folders=dict(Counter(modules[name].folder for name in plain)),
        code_lines=sum(facts.code_lines for facts in every),
        comments=sum(facts.comments for facts in every),
        words=dict(sum((facts.words for facts in every), Counter[str]()).most_common()),
        unreachable=unreachable(root, modules),
        pairs=pairs(shapes),
        conversions=tuple(
            sorted((one for facts in every for one in facts.conversions), key=lambda one: -one.lines)
        ),
        repeated_names=repeated_names(shapes),
        back_up=tuple(str(arrow) for arrow in arrows(imports) if arrow.goes_up),
        loops=loops(imports),
        function_lengths=tuple(chain.from_iterable(facts.functions.lengths for facts in every)),
        used_once=sum(facts.functions.used_once for facts in every),
        bad_openings=bad_openings(root),
    )
