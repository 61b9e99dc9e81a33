"""Text files in the shapes that people have: packed, with comments, with several ends of lines."""

import gzip
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.vault import OpenRecords, Vault, check_detected
from gencard.core.errors import DatasetUnavailableError, GencardError, InvalidInputError, TooLargeError
from gencard.files.content import open_content

TODAY = datetime(2026, 11, 28, tzinfo=UTC).date()
LINES = ["code,note", *(f'0{number % 7},"said, {number % 3}"' for number in range(40))]
TEXT = "\n".join([*LINES, ""])


def packed(folder: Path, name: str, content: bytes, inside: str = "records.csv") -> Path:
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(content))
    elif name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(inside, content)
    else:
        path.write_bytes(content)
    return path


def drafted(path: Path):
    return draft_schema(path, "t", today=TODAY)


def values(path: Path, file_format: FileFormat) -> list[tuple]:
    with OpenRecords(path, file_format) as records:
        return records.rows("SELECT * FROM records")


def same_as_plain(tmp_path: Path, path: Path) -> bool:
    """Whether a file drafts, checks and reads as its plain form in UTF-8."""
    plain = packed(tmp_path, "plain.csv", TEXT.encode())
    expected, draft = drafted(plain), drafted(path)
    Vault(path, draft.schema.coding, draft.schema.readings, draft.format).check()
    return (draft.schema, draft.records) == (expected.schema, expected.records) and values(
        path, draft.format
    ) == values(plain, expected.format)


ENCODED = {
    "utf-8": TEXT.encode(),
    "a mark of the order of bytes": TEXT.encode("utf-8-sig"),
    "utf-16": TEXT.encode("utf-16"),
    "several line ends": ("\r\n".join(LINES[:9]) + "\n" + "\r".join(LINES[9:20]) + "\r\n"
                          + "\n".join(LINES[20:])).encode(),
    "line ends of before": "\r".join(LINES).encode(),
    "comments": b"# made in 2020, by a program\n# second, line\n" + TEXT.encode(),
    "one comment": b"# made in 2020 by a program\n" + TEXT.encode(),
}  # fmt: skip


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".zip"])
@pytest.mark.parametrize("content", ENCODED)
def test_a_file_is_read_as_its_plain_form(tmp_path, ending, content):
    assert same_as_plain(tmp_path, packed(tmp_path, f"t{ending}", ENCODED[content]))


@pytest.mark.parametrize("ending", [".tsv", ".tsv.gz"])
def test_tabs(tmp_path, ending):
    text = "\n".join(line.replace(",", "\t", 1) for line in LINES)
    assert same_as_plain(tmp_path, packed(tmp_path, f"t{ending}", text.encode()))


@pytest.mark.parametrize("name", ["T.CSV", "t.CSV.GZ", "t.Zip"])
def test_endings_may_be_in_capitals(tmp_path, name):
    path = tmp_path / name
    packed(tmp_path, name.lower(), TEXT.encode()).rename(path)
    assert same_as_plain(tmp_path, path)


def test_a_header_may_begin_with_a_hash(tmp_path):
    path = packed(tmp_path, "t.csv", b"#a,b\n" + b"1,x\n2,y\n" * 9)
    assert drafted(path).schema.coding.domain.attributes == ("#a", "b")


def test_a_hash_below_the_header_is_a_value(tmp_path):
    path = packed(tmp_path, "t.csv", b"# made\na,b\n" + b"#1,x\n2,y\n" * 9)
    draft = drafted(path)
    assert draft.format.skip == 1
    assert draft.schema.coding.attribute("a").coding.labels == ("#1", "2")


def test_quoted_line_ends_are_values(tmp_path):
    text = "a,b\r\n" + '"x\ny",1\r\n"x\ry",2\r\n"x\r\ny",1\r\n' * 9
    for name in ("t.csv", "t.csv.gz"):
        draft = drafted(packed(tmp_path, name, text.encode()))
        assert draft.format.line_ends == ""
        assert draft.schema.coding.attribute("a").coding.labels == ("x\ny", "x\r\ny", "x\ry")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.zip"])
def test_a_header_may_have_several_lines(tmp_path, name):
    draft = drafted(packed(tmp_path, name, b'"a\nz",b\n' + b"1,x\n2,y\n" * 9))
    assert draft.records == 18
    assert draft.schema.coding.domain.attributes == ("a\nz", "b")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_an_empty_line_of_one_column_is_a_missing_value(tmp_path, encoding, name):
    content = ("a\n" + "ä\n\nb\n" * 9).encode(encoding)
    draft = drafted(packed(tmp_path, name, content))
    assert draft.records == 27
    assert draft.schema.coding.attribute("a").coding.missing
    assert values(tmp_path / name, draft.format).count((None,)) == 9


REFUSED = {
    "a byte of 0": (b"a,b\n" + b"1,x\n" * 9 + b"1,\x00\n", "U+0000 in line 11, character 3"),
    "an escape": (b"a,b\n" + b"1,x\n" * 9 + b'1,"\x1b[31m"\n', "U+001B in line 11, character 4"),
    "a form feed": (b"a,b\n" + b"1,x\n" * 9 + b"\x0c1,x\n", "U+000C in line 11, character 1"),
    "a ragged line": (b"a,b\n" + b"1,x\n" * 9 + b"1,x,secret\n", "line 11"),
    "an open quotation mark": (b"a,b\n" + b"1,x\n" * 9 + b'1,"secret\n', "near line 11"),
    "names that differ by case": (b"a,A\n" + b"1,x\n" * 9, "'a' and 'A' in line 1"),
    "names that differ by form": (
        "\u00e9,e\u0301\n".encode() + b"1,x\n" * 9,
        "'\u00e9' and 'e\u0301' in line 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, name, ending):
    content, words = REFUSED[name]
    with pytest.raises(InvalidInputError) as caught:
        drafted(packed(tmp_path, f"t{ending}", content))
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "steward" not in str(caught.value) + caught.value.advice


def test_names_of_parquet_that_differ_by_case_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table([[1, 2] * 9, [3, 4] * 9], names=["a", "A"]), tmp_path / "t.parquet")
    with pytest.raises(InvalidInputError, match="'a' and 'A'"):
        drafted(tmp_path / "t.parquet")


# Archives


def archive_of(tmp_path: Path, *names: str) -> Path:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, TEXT)
    return path


@pytest.mark.parametrize("names", [(), ("a.csv", "b.csv"), ("a.zip",), ("a.xlsx",), ("a/",)])
def test_an_archive_holds_one_text_file(tmp_path, names):
    with pytest.raises(InvalidInputError, match="must hold"):
        drafted(archive_of(tmp_path, *names))


def test_names_inside_lead_nowhere(tmp_path):
    assert same_as_plain(tmp_path, archive_of(tmp_path, "x.csv", "__MACOSX/._x.csv"))
    assert same_as_plain(tmp_path, archive_of(tmp_path, "../../etc/x.csv"))
    assert same_as_plain(tmp_path, archive_of(tmp_path, "folder/x.csv"))


def test_an_encrypted_archive_is_refused(tmp_path):
    path = archive_of(tmp_path, "a.csv")
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="is an encrypted archive"):
        drafted(path)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.zip"])
@pytest.mark.parametrize("damage", ["cut", "other bytes", "no archive"])
def test_a_damaged_archive_is_refused(tmp_path, name, damage):
    path = packed(tmp_path, name, TEXT.encode() * 50)
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(
        {
            "cut": content[:half],
            "other bytes": content[: half - 20] + b"\xff" * 40 + content[half + 20 :],
            "no archive": b"a,b\n" * 100,
        }[damage]
    )
    with pytest.raises(InvalidInputError) as caught:
        drafted(path)
    assert "unpack" in str(caught.value)
    with pytest.raises(GencardError):
        check_detected(path, FileFormat())
    with pytest.raises((DatasetUnavailableError, InvalidInputError)):
        values(path, FileFormat())


@pytest.mark.parametrize("name", ["t.csv.gz", "t.zip"])
def test_an_archive_that_inflates_without_end_is_stopped(tmp_path, name):
    path = packed(tmp_path, name, b"a,b\n" + b"1,x\n" * (1 << 20))
    assert path.stat().st_size < 1 << 16
    with open_content(path, "data", 1 << 20) as file:
        assert len(file.read(1 << 19)) == 1 << 19
        with pytest.raises(TooLargeError, match=r"limits\.file_mib"):
            file.read(1 << 20)
    limited = FileFormat(file_mib=1)
    with pytest.raises(TooLargeError, match=r"limits\.file_mib"):
        check_detected(path, limited)
    with pytest.raises(GencardError):
        values(path, limited)


def test_every_file_has_the_limit(tmp_path):
    path = packed(tmp_path, "t.csv", b"a,b\n" + b"1,x\n" * (1 << 19))
    with pytest.raises(TooLargeError, match=r"limits\.file_mib"):
        values(path, FileFormat(file_mib=1))
    assert len(values(path, FileFormat(file_mib=3))) == 1 << 19


def test_the_version_says_how_lines_end_and_not_the_limit(tmp_path):
    path = packed(tmp_path, "t.csv", TEXT.encode())
    coding = drafted(path).schema.coding
    plain, mixed, limited = (
        Vault(path, coding, format=one).version(b"salt")
        for one in (FileFormat(), FileFormat(line_ends="mixed"), FileFormat(file_mib=7))
    )
    assert plain == limited != mixed
