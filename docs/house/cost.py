"""Cost of a change: files and lines since a commit, by kind, as ``git diff --stat`` counts them."""

import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rich.table import Table

from docs.house.sources import ROOT, ROOTS

KINDS = ("product code", "protocol", "generated stubs", "tests", "documents", "other")


@dataclass(frozen=True, slots=True)
class Touched:
    """One file of a change."""

    path: PurePosixPath
    added: int
    removed: int

    @property
    def kind(self) -> str:
        """One of ``KINDS``."""
        top = self.path.parts[0]
        if top in ROOTS:
            if self.path.suffix == ".proto":
                return "protocol"
            return "generated stubs" if "_pb2" in self.path.name else "product code"
        if top == "tests":
            return "tests"
        return "documents" if top == "docs" or self.path.suffix == ".md" else "other"


def touched_since(commit: str, root: Path = ROOT) -> list[Touched]:
    """Files that differ between a commit and the working tree, new files once ``git add`` knows them.

    Raises:
        subprocess.CalledProcessError: There is no such commit.
    """
    command = ["git", "diff", "--numstat", "--no-renames", commit]
    shown = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    rows = (line.split("\t") for line in shown.splitlines())
    return [
        Touched(PurePosixPath(path), _lines(added), _lines(removed)) for added, removed, path in rows
    ]


def cost(touched: list[Touched]) -> Table:
    """Files and lines of each kind; the last line counts all but the generated ones."""
    table = Table("kind", "files", "lines added", "removed")
    by_hand = [one for one in touched if one.kind != "generated stubs"]
    parts = {kind: [one for one in touched if one.kind == kind] for kind in KINDS}
    for name, some in {**parts, "all by hand": by_hand}.items():
        added, removed = sum(one.added for one in some), sum(one.removed for one in some)
        table.add_row(name, f"{len(some)}", f"{added:,}", f"{removed:,}")
    return table


def _lines(count: str) -> int:
    """Binary files have a dash in place of lines."""
    return 0 if count == "-" else int(count)
