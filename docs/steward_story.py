"""Takes the pictures of the stewards' page: ``python -m docs.steward_story [--into FOLDER]``.

They are of the story in ``tests.page.story``, which a test tells too. Needs chromium.
"""

import argparse
import tempfile
from pathlib import Path

PICTURES = Path(__file__).with_name("images")
LARGEST = 120 * 1024
"""Bytes of a picture."""


def main() -> None:
    """Tell the story, and say how large each picture is."""
    from tests.page.story import tell  # noqa: PLC0415 - the controller of the tests

    parser = argparse.ArgumentParser(prog="python -m docs.steward_story", description=__doc__)
    parser.add_argument("--into", type=Path, metavar="FOLDER", default=PICTURES)
    into: Path = parser.parse_args().into
    into.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tell(Path(folder), into)
    for picture in sorted(into.glob("steward-*.png")):
        size = picture.stat().st_size
        print(f"{picture.name}: {size / 1024:.0f} KiB")  # noqa: T201
        if size > LARGEST:
            raise SystemExit(f"{picture.name} is too large")


if __name__ == "__main__":
    main()
