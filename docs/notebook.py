"""Runs the notebook of the first hour and takes the pictures of docs/.

``python -m docs.notebook`` executes ``examples/first_hour.ipynb`` as Jupyter does, writes the page
``dist/first_hour.html`` and takes docs/notebook.png of it. ``--adult FOLDER`` also takes the pictures of
a report, of the example in ``docs.leaking_adult``. Pictures need chromium.
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor

from docs.leaking_adult import main as write_report

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples" / "first_hour.ipynb"
PICTURES = ROOT / "docs"
CELL_SECONDS = 600
_STYLE = "<style>.jp-InputPrompt, .jp-OutputPrompt { display: none } body { max-width: 62em }</style>"

Notebook = Any
"""Of nbformat, which has no types."""


def executed(path: Path = NOTEBOOK) -> Notebook:
    """The notebook with its outputs, run in its own folder.

    Raises:
        CellExecutionError: A cell failed.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    settings = {"timeout": CELL_SECONDS, "kernel_name": "python3", "record_timing": False}
    runner = ExecutePreprocessor(**settings)  # type: ignore[no-untyped-call]
    runner.preprocess(notebook, {"metadata": {"path": str(path.parent)}})
    return notebook


def texts(notebook: Notebook) -> list[str]:
    """The text of every output, and where it is one, the name of its stream before it."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [_text(output) for output in outputs]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return f"{output.name}: {output.text}"
    return str(output.get("data", {}).get("text/plain", ""))


def html(notebook: Notebook) -> str:
    """The notebook as one page that loads nothing from elsewhere."""
    page, _ = HTMLExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]
    without_scripts = re.sub(r"(?s)<script\b.*?</script>", "", str(page))
    return without_scripts.replace("</head>", f"{_STYLE}</head>", 1)


def take_picture(page: Path, picture: Path, *, width: int, height: int) -> None:
    """A picture of a page in chromium, in pixels; raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        sizes = ["--hide-scrollbars", f"--window-size={width},{height}"]
        files = [f"--user-data-dir={profile}", f"--screenshot={picture}", page.resolve().as_uri()]
        subprocess.run(
            ["chromium", *options, *sizes, *files], check=True, timeout=240, capture_output=True
        )


def main() -> None:
    """Write page and pictures."""
    parser = argparse.ArgumentParser(prog="python -m docs.notebook", description=__doc__)
    parser.add_argument("--adult", metavar="FOLDER", help="records and rows of the example of a report")
    folder = parser.parse_args().adult
    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    page = dist / "first_hour.html"
    page.write_text(html(executed()), encoding="utf-8")
    take_picture(page, PICTURES / "notebook.png", width=1_000, height=5_200)
    if folder:
        report = dist / "report.html"
        write_report(folder, str(report))
        take_picture(report, PICTURES / "report.png", width=1_000, height=1_370)


if __name__ == "__main__":
    main()
