"""Reviews of black boxes in the settings file: the one line that is put in, and nothing else changed."""

import stat
import tomllib

import pytest

from gencard.controller.boxes import ReviewTable
from gencard.controller.drafting.edits import review_line, write_review
from gencard.core.errors import InvalidInputError

SETTINGS = """\
[server]
address = "localhost:0"  # a remark

[[black_boxes]]
name = "chain"  # ours
kind = "program"
folder = "boxes/chain"
command = ["python", "./box.py"]

[[black_boxes]]
kind = "honest"
name = 'honest'
[[datasets]]
name = "chain"
"""
FIRST = ReviewTable(name='Jane "J." Doe, ä', digest="ab" * 32)
SECOND = ReviewTable(name="sam", digest="cd" * 32)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "controller.toml"
    path.write_text(SETTINGS)
    path.chmod(0o640)
    return path


@pytest.mark.parametrize(("box", "place"), [("chain", 0), ("honest", 1)])
def test_one_table_gets_the_line(file, box, place):
    write_review(file, box, FIRST)
    expected = tomllib.loads(SETTINGS)
    expected["black_boxes"][place]["reviewed_by"] = {"name": FIRST.name, "digest": FIRST.digest}
    assert tomllib.loads(file.read_text()) == expected
    assert "# a remark" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_later_review_takes_the_place_of_the_earlier(file):
    write_review(file, "chain", FIRST)
    write_review(file, "chain", SECOND)
    assert file.read_text().count("reviewed_by") == 1
    assert tomllib.loads(file.read_text())["black_boxes"][0]["reviewed_by"]["name"] == "sam"


@pytest.mark.parametrize(
    "text",
    [
        SETTINGS.replace('"chain"  # ours', '"another"'),
        'black_boxes = [{ name = "chain", kind = "honest" }]\n',
        '[[black_boxes]]\nname = "chain"\nreviewed_by = { name = "x",\n digest = "y" }\n',
    ],
    ids=["no such box", "an inline table", "no TOML"],
)
def test_what_cannot_be_written_is_refused_and_the_file_stays(file, text):
    file.write_text(text)
    with pytest.raises(InvalidInputError):
        write_review(file, "chain", FIRST)
    assert file.read_text() == text


def test_the_line_is_toml_whatever_the_name():
    name = 'quote " backslash \\ and letters ä€𝄞'
    line = review_line(ReviewTable(name=name, digest="ab" * 32))
    assert tomllib.loads(line)["reviewed_by"]["name"] == name
