"""The root of a sandbox as arguments of bubblewrap: what a view shows, read-only, nothing else."""

from collections.abc import Iterator
from pathlib import Path

from gencard.controller.sandbox.views import View

COMPILED = "/cell/compiled"
"""Where Python looks for compiled copies, and nowhere else."""

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
_SETTINGS = ("/etc/alternatives", "/etc/R")
"""Of the system's settings, what finds its interpreters."""

_INDEX = "/etc/ld.so.cache"
"""Names of libraries and where they are; only those that are shown are there."""


def root_of(view: View) -> tuple[str, ...]:
    """What is there before the program's own files are."""
    return (*_system(view), *_shown(view), *_links(view), *_compiled(view))


def closing_of(view: View) -> Iterator[str]:
    """What can only be said once all is there: nothing is written into hidden folders either."""
    for path in view.hidden:
        yield from ("--remount-ro", path)


def _system(view: View) -> Iterator[str]:
    names = [*_SETTINGS, _INDEX] if view.system else [_INDEX]
    if view.system:
        yield from ("--ro-bind", "/usr", "/usr")
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir() and view.system:
            yield from ("--ro-bind", str(path), str(path))
    yield from _passable(Path(_INDEX), set())
    for name in names:
        yield from ("--ro-bind-try", name, name)


def _shown(view: View) -> Iterator[str]:
    """In the order of their paths, so that what lies in a hidden folder comes after it."""
    made: set[Path] = set()
    shown = [] if view.system else view.shown
    for path in sorted({*shown, *view.hidden}):
        yield from _passable(Path(path), made)
        hidden = path in view.hidden
        yield from ("--perms", "0755", "--tmpfs", path) if hidden else ("--ro-bind", path, path)


def _links(view: View) -> Iterator[str]:
    made: set[Path] = set()
    for path, target in view.links:
        yield from _passable(Path(path), made)
        yield from ("--symlink", target, path)


def _compiled(view: View) -> Iterator[str]:
    if view.compiled:
        yield from _passable(Path(COMPILED), set())
        yield from ("--ro-bind", view.compiled, COMPILED)


def _passable(path: Path, made: set[Path]) -> Iterator[str]:
    """Empty folders above a path, that others than root may pass too."""
    for above in reversed(path.parents[:-1]):
        if above not in made:
            made.add(above)
            yield from ("--perms", "0755", "--dir", str(above))
