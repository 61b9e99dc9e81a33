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
from PIL import Image, ImageChops

from docs.leaking_adult import main as write_report

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "examples" / "first_hour.ipynb"
PICTURES = ROOT / "docs"
CELL_SECONDS = 600
FIGURES = ("dcr", "tables")
"""Sections of a report that docs/report-figures.png shows."""

_SECTION = r'<section class="measure" aria-labelledby="{}">.*?</section>'
_STYLE = "<style>.jp-InputPrompt, .jp-OutputPrompt { display: none } body { max-width: 62em }</style>"

Notebook = Any
"""A notebook of nbformat, which has no types."""


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
        command = ["chromium", *options, *sizes, *files]
        subprocess.run(command, check=True, timeout=240, capture_output=True)
    _shrink(picture)


def _shrink(picture: Path) -> None:
    """Cut off what is empty below, and keep 64 colours."""
    with Image.open(picture) as file:
        image = file.convert("RGB")
    corner = image.crop((0, image.height - 1, 1, image.height)).resize(image.size)
    box = ImageChops.difference(image, corner).getbbox() or (0, 0, *image.size)
    lowest = min(box[3] + 24, image.height)
    image.crop((0, 0, image.width, lowest)).quantize(64).save(picture, optimize=True)


def figures_of(page: str) -> str:
    """The page of a report with nothing but the sections of ``FIGURES``."""
    head, _, body = page.partition("<body")
    sections = (re.search(_SECTION.format(name), body, re.DOTALL) for name in FIGURES)
    shown = "".join(section[0] for section in sections if section)
    return f"{head}<body><main>{shown}</main></body></html>"


def main() -> None:
    """Write page and pictures."""
    parser = argparse.ArgumentParser(prog="python -m docs.notebook", description=__doc__)
    parser.add_argument("--adult", metavar="FOLDER", help="records and rows of the example of a report")
    folder = parser.parse_args().adult
    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    page = dist / "first_hour.html"
    page.write_text(html(executed()), encoding="utf-8")
    take_picture(page, PICTURES / "notebook.png", width=840, height=7_000)
    if folder:
        report = dist / "report.html"
        write_report(folder, str(report))
        take_picture(report, PICTURES / "report.png", width=1_000, height=1_640)
        figures = dist / "report-figures.html"
        figures.write_text(figures_of(report.read_text(encoding="utf-8")), encoding="utf-8")
        take_picture(figures, PICTURES / "report-figures.png", width=820, height=2_400)


if __name__ == "__main__":
    main()
